"""Results as tables for people. Pure: what is to be printed, part by part."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from capvco.cli.gpucheck.ages import worded
from capvco.cli.gpucheck.holdings import Holding
from capvco.cli.gpucheck.offers import Offer, Plan
from capvco.cli.gpucheck.owners import OwnerClass
from capvco.cli.gpucheck.releases import Result
from capvco.cli.gpucheck.reports import (
    AnyReport,
    ListReport,
    OffersReport,
    ReleaseReport,
    TypeReport,
)

_STYLES = {
    OwnerClass.LIVE: "green",
    OwnerClass.FOREIGN: "",
    OwnerClass.ORPHAN: "bold red",
    OwnerClass.UNKNOWN: "yellow",
}
Part = Table | Text


def clean(text: str) -> str:
    """Return a text of the platform's without what a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def parts(report: AnyReport) -> list[Part]:
    """Return a report as tables and lines."""
    match report:
        case OffersReport():
            return [offers(report.offers)]
        case TypeReport():
            return [line for plan in report.plans for line in _plan(plan)] + [
                Text(f"elsewhere: {clean(text)}") for text in report.elsewhere
            ]
        case ListReport():
            return [
                holdings(report.holdings),
                _totals(report),
                *_doubts(report.doubts),
            ]
        case ReleaseReport():
            return [results(report.results), *_doubts(report.doubts)]


def offers(rows: Sequence[Offer]) -> Part:
    """Return what locations offer."""
    if not rows:
        return Text("no GPUs are offered")
    table = _table("LOCATION", "TYPE TO WRITE", "VENDOR", "MODEL", "CARDS", "FREE")
    for row in rows:
        only = row.profiles[0].profile_id
        written = row.type or f"(profileId {only})"
        _row(table, row.location, written, row.vendor, row.model, str(row.cards), str(row.free))
    return table


def _plan(plan: Plan) -> Iterable[Part]:
    if not plan.available:
        yield Text(f"{plan.location}: no: {clean(plan.reason)}")
        return
    name = " ".join(part for part in (plan.vendor, plan.model) if part)
    yield Text(clean(f"{plan.location}: yes: {len(plan.cards)} x {name}"))
    table = _table("GPU", "CARD", "PROFILE ID", "FREE")
    for number, card in enumerate(plan.cards):
        _row(table, str(number), card.model, card.profile_id, str(card.free))
    yield table
    if plan.note:
        yield Text(f"note: {clean(plan.note)}")


def holdings(rows: Sequence[Holding]) -> Part:
    """Return reservations."""
    if not rows:
        return Text("no reservations")
    table = _table("LOCATION", "VGPU", "NAME", "MODEL", "VM", "BIN", "AGE", "OWNER", "WHY")
    for row in rows:
        vm = f"{row.vm.name} ({row.vm.id}, {row.vm.cloudspace_id})" if row.vm else "-"
        owner = f"{row.owner} {row.machine}".strip()
        cells = (row.location, row.vgpu_id, row.name, row.model, vm, "yes" if row.in_bin else "-")
        _row(table, *cells, age(row), owner, row.why, style=_STYLES[row.owner])
    return table


def age(row: Holding) -> str:
    """Write an age: exact, at least, or not known."""
    if row.age_seconds is None:
        return "?"
    return ("" if row.age_exact else "≥ ") + worded(row.age_seconds)


def _totals(report: ListReport) -> Part:
    totals, places = report.totals, ", ".join(report.locations) or "no location that answers"
    where = (
        f"{report.customer} holds {totals.held} reservation(s) in {places}, {totals.shown} shown"
    )
    kinds = (
        f"{totals.live} live, {totals.foreign} foreign, {totals.orphan} orphan,"
        f" {totals.unknown} unknown"
    )
    return Text(f"{where}: {kinds}; {totals.attached} attached, {totals.in_bin} in the bin")


def _doubts(doubts: Sequence[str]) -> list[Part]:
    return [Text(f"owners are doubtful: {clean(doubt)}") for doubt in doubts]


def results(rows: Sequence[Result]) -> Part:
    """Return what became of orphans."""
    if not rows:
        return Text("nothing to release")
    table = _table("LOCATION", "VGPU", "NAME", "OUTCOME", "DETAIL")
    for row in rows:
        _row(table, row.location, row.vgpu_id, row.name, row.outcome, row.detail)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        # Ids are to be copied: they may be folded, but nothing is ever cut off.
        table.add_column(name, overflow="fold")
    return table


def _row(table: Table, *cells: str, style: str = "") -> None:
    table.add_row(*(Text(clean(cell), style=style) for cell in cells))
