"""Results as tables for people. Pure: what is to be printed, part by part."""

from collections.abc import Iterable, Sequence

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
from capvco.cli.texts import clean, columns

_STYLES = {
    OwnerClass.LIVE: "green",
    OwnerClass.FOREIGN: "",
    OwnerClass.ORPHAN: "bold red",
    OwnerClass.UNKNOWN: "yellow",
}


def parts(report: AnyReport) -> list[Text]:
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


def offers(rows: Sequence[Offer]) -> Text:
    """Return what locations offer."""
    if not rows:
        return Text("no GPUs are offered")
    cells = [
        (
            row.location,
            row.type or f"(profileId {row.profiles[0].profile_id})",
            row.vendor,
            row.model,
            str(row.cards),
            str(row.free),
        )
        for row in rows
    ]
    return columns(("LOCATION", "TYPE TO WRITE", "VENDOR", "MODEL", "CARDS", "FREE"), cells)


def _plan(plan: Plan) -> Iterable[Text]:
    if not plan.available:
        yield Text(f"{plan.location}: no: {clean(plan.reason)}")
        return
    name = " ".join(part for part in (plan.vendor, plan.model) if part)
    yield Text(clean(f"{plan.location}: yes: {len(plan.cards)} x {name}"))
    cells = [(str(n), c.model, c.profile_id, str(c.free)) for n, c in enumerate(plan.cards)]
    yield columns(("GPU", "CARD", "PROFILE ID", "FREE"), cells)
    if plan.note:
        yield Text(f"note: {clean(plan.note)}")


def holdings(rows: Sequence[Holding]) -> Text:
    """Return reservations."""
    if not rows:
        return Text("no reservations")
    titles = ("LOCATION", "VGPU", "NAME", "MODEL", "VM", "BIN", "AGE", "OWNER", "WHY")
    return columns(titles, [_cells(row) for row in rows], [_STYLES[row.owner] for row in rows])


def _cells(row: Holding) -> tuple[str, ...]:
    return (
        row.location,
        row.vgpu_id,
        row.name,
        row.model,
        f"{row.vm.name} ({row.vm.id}, {row.vm.cloudspace_id})" if row.vm else "-",
        "yes" if row.in_bin else "-",
        age(row),
        f"{row.owner} {row.machine}".strip(),
        row.why,
    )


def age(row: Holding) -> str:
    """Write an age: exact, at least, or not known."""
    if row.age_seconds is None:
        return "?"
    return ("" if row.age_exact else "≥ ") + worded(row.age_seconds)


def _totals(report: ListReport) -> Text:
    totals, places = report.totals, ", ".join(report.locations) or "no location that answers"
    where = (
        f"{report.customer} holds {totals.held} reservation(s) in {places}, {totals.shown} shown"
    )
    kinds = (
        f"{totals.live} live, {totals.foreign} foreign, {totals.orphan} orphan,"
        f" {totals.unknown} unknown"
    )
    return Text(f"{where}: {kinds}; {totals.attached} attached, {totals.in_bin} in the bin")


def _doubts(doubts: Sequence[str]) -> list[Text]:
    return [Text(f"owners are doubtful: {clean(doubt)}") for doubt in doubts]


def results(rows: Sequence[Result]) -> Text:
    """Return what became of orphans."""
    if not rows:
        return Text("nothing to release")
    cells = [(row.location, row.vgpu_id, row.name, row.outcome, row.detail) for row in rows]
    return columns(("LOCATION", "VGPU", "NAME", "OUTCOME", "DETAIL"), cells)
