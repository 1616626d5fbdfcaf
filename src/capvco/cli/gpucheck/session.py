"""One run that is connected: what it asks, and what it finds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from capvco.cli.gpucheck import offers
from capvco.cli.gpucheck.holdings import Describer, Holding, listed, totals
from capvco.cli.gpucheck.kubernetes import Management
from capvco.cli.gpucheck.options import Mode, Options
from capvco.cli.gpucheck.owners import OwnerClass, Register
from capvco.cli.gpucheck.releases import Outcome, Releaser, Result, old_enough, result
from capvco.cli.gpucheck.reports import (
    AnyReport,
    ListReport,
    OffersReport,
    ReleaseReport,
    TypeReport,
)
from capvco.cli.gpucheck.screen import Screen
from capvco.cli.places import each
from capvco.vco.cloud import VCO
from capvco.vco.errors import VCOError


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run takes from outside; tests put their own in its place."""

    environment: Mapping[str, str]
    clock: Callable[[], float] = time.time
    elapsed: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, kw_only=True)
class Session:
    """A run that is connected."""

    options: Options
    world: World
    screen: Screen
    vco: VCO
    management: Management
    locations: tuple[str, ...]

    @property
    def customer(self) -> str:
        """Whose reservations these are."""
        return self.vco.credentials.customer_id

    async def report(self) -> AnyReport:
        """Do what the options say. Raises VCOError where no location answers."""
        match self.options.mode:
            case Mode.OFFERS:
                return await self._offers()
            case Mode.TYPE:
                return await self._type()
            case Mode.LIST:
                return await self._list()
            case Mode.RELEASE:
                return await self._release()

    async def _offers(self) -> OffersReport:
        found = await each(self.locations, self.vco.gpus.profiles)
        rows = [row for at, cards in found.by_location.items() for row in offers.offers(at, cards)]
        return OffersReport(customer=self.customer, errors=found.troubles, offers=tuple(rows))

    async def _type(self) -> TypeReport:
        request = self.options.request
        found = await each(self.locations, self.vco.gpus.profiles)
        plans = tuple(offers.plan(request, at, said) for at, said in found.by_location.items())
        served = any(plan.available for plan in plans)
        return TypeReport(
            customer=self.customer,
            errors=found.troubles,
            request=str(request),
            plans=plans,
            elsewhere=() if served else await self._elsewhere(),
        )

    async def _elsewhere(self) -> tuple[str, ...]:
        """Say which locations that were not asked have the type; silent about unreadable ones."""
        try:
            others = sorted(set(await self.vco.locations.list()) - set(self.locations))
        except VCOError:
            return ()
        found = await each(others, self.vco.gpus.profiles)
        said = (
            offers.elsewhere(self.options.request, at, cards)
            for at, cards in found.by_location.items()
        )
        return tuple(text for text in said if text)

    async def _list(self) -> ListReport:
        # The platform first, then those who may claim what it lists.
        found = await each(self.locations, lambda at: listed(self.vco, at))
        knowledge = await self.management.look()
        describer = Describer(
            vco=self.vco,
            register=Register(knowledge),
            now=self.world.clock(),
            min_age=self.options.least_age,
        )
        described = await each(
            tuple(found.by_location), lambda at: describer.describe(at, found.by_location[at])
        )
        for _, unclear in described.by_location.values():
            if unclear:
                self.screen.note(unclear)
        rows = [row for rows, _ in described.by_location.values() for row in rows]
        shown = [row for row in rows if row.name.startswith(self.options.name_prefix or "")]
        return ListReport(
            customer=self.customer,
            errors=(*found.troubles, *described.troubles),
            locations=tuple(described.by_location),
            kubernetes=tuple(kube.server for kube in self.management.kubes),
            doubts=knowledge.doubts,
            holdings=tuple(shown),
            totals=totals(rows, shown),
        )

    async def _release(self) -> ReleaseReport:
        started = self.world.elapsed()
        seen = await self._list()
        orphans = tuple(row for row in seen.holdings if row.owner is OwnerClass.ORPHAN)
        return ReleaseReport(
            customer=seen.customer,
            errors=seen.errors,
            locations=seen.locations,
            kubernetes=seen.kubernetes,
            doubts=seen.doubts,
            holdings=seen.holdings,
            totals=seen.totals,
            results=await self._released(orphans, started) if orphans else (),
        )

    async def _released(self, orphans: Sequence[Holding], started: float) -> tuple[Result, ...]:
        """Show, ask, wait where the age is not proven, and release one by one."""
        least = self.options.least_age
        old = [row for row in orphans if old_enough(row, least)]
        young = [row for row in orphans if not old_enough(row, least)]
        if not await self._agreed((*old, *young)):
            return tuple(result(row, Outcome.DECLINED) for row in orphans)
        releaser = Releaser(
            vco=self.vco,
            look=self.management.look,
            clock=self.world.elapsed,
            sleep=self.world.sleep,
        )
        done = [await self._one(releaser, row) for row in old]
        if self.options.no_wait:
            detail = "nothing proves its age; without --no-wait it is waited for"
            return (*done, *(result(row, Outcome.TOO_YOUNG, detail) for row in young))
        if young:
            await self._wait(len(young), started + least)
        return (*done, *[await self._one(releaser, row) for row in young])

    async def _agreed(self, orphans: tuple[Holding, ...]) -> bool:
        self.screen.candidates(orphans)
        asked = " and ".join(kube.server for kube in self.management.kubes)
        self.screen.note(
            f"No VCOMachine of {asked} has these. A management cluster that was not asked might:"
            " reservations of a machine that it is just making look the same."
        )
        if self.options.yes:
            return True
        return await self.screen.confirmed(
            f"Release {len(orphans)} reservation(s) of {self.customer} for good?"
        )

    async def _wait(self, count: int, until: float) -> None:
        left = until - self.world.elapsed()
        if left > 0:
            self.screen.note(
                f"{count} of unproven age: waiting {left:.0f} s, then a second look (Ctrl-C stops)"
            )
            await self.world.sleep(left)

    async def _one(self, releaser: Releaser, orphan: Holding) -> Result:
        found = await releaser.release(orphan)
        self.screen.note(f"{orphan.location} {orphan.vgpu_id} {orphan.name}: {found.outcome}")
        return found
