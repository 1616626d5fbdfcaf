"""The figures of a run as tables for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Phase, Run

_MILLI = 1000


def tables(run: Run) -> Iterator[Table]:
    """Give what a run has to say."""
    for phase in run.phases:
        yield _processes(run, phase)
    yield _calls(run)


def _processes(run: Run, phase: Phase) -> Table:
    title = f"{run.what}: {phase.name}, {phase.machines} machines, {phase.seconds:.1f} s"
    table = Table(title=title, title_justify="left")
    table.add_column("process")
    for name in ("CPU s", "CPU ms/machine", "RSS MiB", "peak MiB"):
        table.add_column(name, justify="right")
    for one in phase.processes:
        table.add_row(
            one.name,
            f"{one.cpu_seconds:.2f}",
            _each(one.cpu_seconds * _MILLI, phase.machines),
            f"{one.rss_mib:.0f}",
            f"{one.peak_mib:.0f}",
        )
    return table


def _calls(run: Run) -> Table:
    table = Table(title=f"{run.what}: calls of the manager, a machine", title_justify="left")
    table.add_column("phase")
    names = ("VCO, GPU", "VCO, other", "VCO, mutating", "Kubernetes writes", "Kubernetes reads")
    for name in names:
        table.add_column(name, justify="right")
    for phase in run.phases:
        counts = (
            phase.cloud.gpu,
            phase.cloud.other,
            phase.cloud.mutating,
            phase.writes,
            phase.kubernetes.get("GET", 0),
        )
        # At rest it is the sum that must not grow.
        per = 1 if phase.name == "idle" else phase.machines
        label = f"{phase.name} {phase.machines}" + (", in all" if phase.name == "idle" else "")
        table.add_row(label, *(_each(count, per) for count in counts))
    return table


def _each(value: float, count: int) -> str:
    return f"{value / count:.2f}" if count else "-"
