"""The command: ``python -m bench [provider [N …]] [capi [N …]] [idle [N …]]``."""

from __future__ import annotations

import argparse
import pstats
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from bench import chart, cloud, modes, results
from bench.stage import Setting
from bench.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.results import Report, Run

_DEFAULTS = {"provider": (100, 1000, 3000), "capi": (100, 300), "idle": (0, 10, 100)}
_TOP = 25


def chosen(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Read ``provider 100 1000 idle`` as machines by benchmark; nothing means everything.

    Raises ValueError for a word that is neither, and a number that follows no benchmark.
    """
    found: dict[str, tuple[int, ...]] = {}
    name = ""
    for word in words:
        if word in _DEFAULTS:
            name = word
            found[name] = ()
        elif name and word.isdecimal():
            found[name] += (int(word),)
        else:
            raise ValueError(f'"{word}" is no benchmark: there are {", ".join(_DEFAULTS)}')
    return {name: counts or _DEFAULTS[name] for name, counts in found.items()} or _DEFAULTS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure what GPU machines cost, on a real API server and a simulated cloud.",
    )
    add = parser.add_argument
    known = ", ".join(f"{name} {' '.join(map(str, n))}" for name, n in _DEFAULTS.items())
    add("what", nargs="*", metavar="WHAT [MACHINES ...]", help=f"default: {known}")
    add("--call-seconds", type=float, default=0.05, help="time of a changing call to the cloud")
    add("--per-card", type=int, default=1, help="vGPUs that a card of the cloud can give")
    add("--idle-seconds", type=float, default=60.0, help="how long to look at each idle state")
    add("--sync-period", default="240s", help="the manager's, for all runs")
    add("--concurrency", default="10", help="the manager's")
    add("--profile", action="store_true", help="where the manager's time goes; it is slower then")
    add("--output", type=Path, default=Path("bench/results"), metavar="FOLDER")
    add("--name", default="", help="of the results' files: DATE-NAME.json; default: what was run")
    return parser


def _flags(given: argparse.Namespace) -> dict[str, str]:
    """Return the manager's flags: nothing of ours shall be what is waited for."""
    return {
        "concurrency": given.concurrency,
        "vco-rate": "2000",
        "vco-burst": "2000",
        "vco-concurrency": "64",
        "sync-period": given.sync_period,
        "log-level": "warning",
    }


def _runs(
    given: argparse.Namespace, wanted: Mapping[str, Sequence[int]], base: Path
) -> Iterator[Run]:
    def setting(label: str, count: int) -> Setting:
        return Setting(
            vgpus=count,
            per_card=given.per_card,
            call_seconds=given.call_seconds,
            flags=_flags(given),
            profile=Path(f"{base.absolute()}-{label}.prof") if given.profile else None,
        )

    for count in wanted.get("provider", ()):
        yield modes.provider(count, setting(f"provider-{count}", count))
    for count in wanted.get("capi", ()):
        yield modes.capi(count, setting(f"capi-{count}", count))
    if counts := wanted.get("idle"):
        yield modes.idle(counts, given.idle_seconds, setting("idle", max(counts)))


def _show_profile(path: Path, console: Console) -> None:
    for order in ("cumulative", "tottime"):
        console.rule(f"{path.name}, by {order}")
        pstats.Stats(str(path), stream=sys.stdout).sort_stats(order).print_stats(_TOP)


def _keep(report: Report, base: Path) -> None:
    results.write(report, Path(f"{base}.json"))
    if moving := [run for run in report.runs if run.what != "idle"]:
        Path(f"{base}.svg").write_text(chart.svg(moving), encoding="utf-8")


def _judge(report: Report, console: Console) -> int:
    faults = [run for run in report.runs if run.held or run.breaches]
    for run in faults:
        console.print(
            f"{run.what}, {run.machines}: {run.held} reservations still held, {run.breaches}"
            " requests outside the cloud's description: look at the manager before the figures"
        )
    return 1 if faults else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 when a run left something behind."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        wanted = chosen(given.what)
    except ValueError as error:
        parser.error(str(error))
    console = Console()
    at, machine = results.today(), results.this_machine()
    base = given.output / f"{at[:10]}-{given.name or '-'.join(wanted)}"
    base.parent.mkdir(parents=True, exist_ok=True)
    report = results.Report(
        at=at,
        machine=machine,
        flags=_flags(given),
        switches=cloud.switches(given.call_seconds) | {"vgpus per card": str(given.per_card)},
        profiled=given.profile,
        runs=(),
    )
    for run in _runs(given, wanted, base):
        console.print(*tables(run), sep="\n")
        report = msgspec.structs.replace(report, runs=(*report.runs, run))
        _keep(report, base)
    for path in sorted(base.parent.glob(f"{base.name}-*.prof")) if given.profile else ():
        _show_profile(path, console)
    console.print(f"written: {base}.json")
    return _judge(report, console)


if __name__ == "__main__":
    sys.exit(main())
