"""Release orphans: a second look right before, permanently, and proof of absence after.

Never by a name alone, never anything attached, foreign or unknown.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from capvco.cli.gpucheck.holdings import Holding, listed
from capvco.cli.gpucheck.owners import Knowledge, OwnerClass, Register
from capvco.vco.cloud import VCO
from capvco.vco.errors import NotFound, UnknownOutcome, VCOError


class Outcome(StrEnum):
    """What became of an orphan that was to be released."""

    RELEASED = "released"
    """A read after the release does not list it any more, nor does the recycle bin."""
    GONE = "gone"
    """It was gone at the second look; somebody else released it."""
    SPARED = "spared"
    """At the second look it was no orphan any more."""
    TOO_YOUNG = "too-young"
    """Nothing proves the minimum age, and the run was not to wait for it."""
    DECLINED = "declined"
    """The person at the terminal said no."""
    FAILED = "failed"
    """The platform could not be asked or refused; nothing was released."""
    UNCONFIRMED = "unconfirmed"
    """The release was sent, and it is not proven that the reservation is gone."""


class Result(Struct, frozen=True, rename="camel", kw_only=True):
    """One orphan, and what became of it."""

    location: str
    vgpu_id: str
    name: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Releaser:
    """Releases the orphans of one customer, one by one."""

    vco: VCO
    look: Callable[[], Awaitable[Knowledge]]
    """Asks Kubernetes anew."""
    patience: float = 60.0
    """Seconds in which a released reservation must vanish from the list."""
    poll: float = 3.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def release(self, orphan: Holding) -> Result:
        """Release one orphan, if it still is one. Never raises for what the platform says."""
        try:
            if (spared := await self._second_look(orphan)) is not None:
                return spared
            await self.vco.gpus.release(
                orphan.location, orphan.vgpu_id, detach=False, permanently=True
            )
        except (NotFound, UnknownOutcome):
            # Gone already, or perhaps: the list tells.
            pass
        except VCOError as error:
            return result(orphan, Outcome.FAILED, str(error))
        return await self._confirm(orphan)

    async def _second_look(self, orphan: Holding) -> Result | None:
        """Return what speaks against the release. The platform first, then those who may claim."""
        found = {vgpu.vgpu_id: vgpu for vgpu in await listed(self.vco, orphan.location)}
        register = Register(await self.look())
        if (vgpu := found.get(orphan.vgpu_id)) is None:
            return result(orphan, Outcome.GONE)
        if (vgpu.vgpu_name, vgpu.gpu_id) != (orphan.name, orphan.profile_id):
            return result(orphan, Outcome.SPARED, f"the id is now {vgpu.vgpu_name}'s")
        owner = register.owner(vgpu, orphan.location)
        if owner.kind is not OwnerClass.ORPHAN:
            return result(orphan, Outcome.SPARED, f"{owner.kind}: {owner.why}")
        return None

    async def _confirm(self, orphan: Holding) -> Result:
        deadline = self.clock() + self.patience
        while True:
            try:
                present = {vgpu.vgpu_id for vgpu in await listed(self.vco, orphan.location)}
            except VCOError as error:
                seen = str(error)
            else:
                if orphan.vgpu_id not in present:
                    return result(orphan, Outcome.RELEASED)
                seen = f"{orphan.location} still lists it after {self.patience:g} s"
            if self.clock() >= deadline:
                return result(orphan, Outcome.UNCONFIRMED, f"{seen}; look again with --list")
            await self.sleep(self.poll)


def result(orphan: Holding, outcome: Outcome, detail: str = "") -> Result:
    """Make a result."""
    return Result(
        location=orphan.location,
        vgpu_id=orphan.vgpu_id,
        name=orphan.name,
        outcome=outcome,
        detail=detail,
    )


def old_enough(orphan: Holding, min_age: float) -> bool:
    """Say whether the minimum age is proven by what the platform tells."""
    return orphan.age_seconds is not None and orphan.age_seconds >= min_age
