"""What a run found, as it is written with ``-o json``: docs/gpucheck.md documents each field."""

from msgspec import Struct

from capvco.cli.gpucheck.codes import Code, first
from capvco.cli.gpucheck.holdings import Holding, Totals
from capvco.cli.gpucheck.offers import Offer, Plan
from capvco.cli.gpucheck.releases import Outcome, Result
from capvco.cli.places import Trouble


class Report(Struct, frozen=True, rename="camel", kw_only=True, tag_field="report"):
    """What all reports have."""

    customer: str
    errors: tuple[Trouble, ...] = ()
    exit_code: int = 0


class OffersReport(Report, frozen=True, kw_only=True, tag="offers"):
    """What locations offer."""

    offers: tuple[Offer, ...]

    @property
    def code(self) -> Code:
        """How the run ends."""
        return Code.PLATFORM if self.errors else Code.FINE


class TypeReport(Report, frozen=True, kw_only=True, tag="type"):
    """What the controller would do with a request."""

    request: str
    plans: tuple[Plan, ...]
    elsewhere: tuple[str, ...] = ()
    """Other locations that have the type, in words."""

    @property
    def code(self) -> Code:
        """How the run ends: one location that can serve the request is enough."""
        served = any(plan.available for plan in self.plans)
        return first(
            Code.PLATFORM if self.errors else Code.FINE,
            Code.FINE if served else Code.TYPE_UNAVAILABLE,
        )


class ListReport(Report, frozen=True, kw_only=True, tag="list"):
    """What a customer holds."""

    locations: tuple[str, ...]
    """Those that were read; the totals are theirs."""
    kubernetes: tuple[str, ...]
    """API servers of the management clusters that were asked."""
    doubts: tuple[str, ...]
    """Why owners may be unknown."""
    holdings: tuple[Holding, ...]
    totals: Totals

    @property
    def code(self) -> Code:
        """How the run ends."""
        return first(
            Code.PLATFORM if self.errors else Code.FINE,
            Code.ORPHANS if self.totals.orphan else Code.FINE,
            Code.OWNER_UNKNOWN if self.totals.unknown else Code.FINE,
        )


class ReleaseReport(Report, frozen=True, kw_only=True, tag="release"):
    """What was done about orphans; ``holdings`` is what was seen before."""

    locations: tuple[str, ...]
    kubernetes: tuple[str, ...]
    doubts: tuple[str, ...]
    holdings: tuple[Holding, ...]
    totals: Totals
    results: tuple[Result, ...]

    @property
    def code(self) -> Code:
        """How the run ends."""
        outcomes = {result.outcome for result in self.results}
        undone = outcomes & {Outcome.FAILED, Outcome.UNCONFIRMED, Outcome.DECLINED}
        unclear = self.totals.unknown or Outcome.SPARED in outcomes
        return first(
            Code.PLATFORM if self.errors else Code.FINE,
            Code.NOT_RELEASED if undone else Code.FINE,
            Code.ORPHANS if Outcome.TOO_YOUNG in outcomes else Code.FINE,
            Code.OWNER_UNKNOWN if unclear else Code.FINE,
        )


AnyReport = OffersReport | TypeReport | ListReport | ReleaseReport
