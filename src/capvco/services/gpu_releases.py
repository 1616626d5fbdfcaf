"""Release the vGPUs of one machine, and prove that they are gone.

Nothing that is not provably ours is released or detached: see ``gpu_reservations`` for what is.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from capvco.api.conditions import Reason
from capvco.services.cloud import Cloud, Save
from capvco.services.gpu_reservations import Wanted, about, elsewhere, held, unanswered
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.vco.errors import NotFound, Refused
from capvco.vco.models import VGPU


@dataclass(frozen=True)
class Releases:
    """The vGPUs of one machine, on their way out."""

    cloud: Cloud
    wanted: Wanted
    save: Save

    async def release(self, record: Record) -> Pending | None:
        """Release every vGPU of the record permanently; None once a read proves none is left.

        Call it when the machine's VM is gone. Idempotent: what is gone already is released.
        """
        if not record.gpus and not record.lost:
            return None
        location, poll = self.wanted.location, self.cloud.waits.poll
        for slot in held(record):
            # Not from a VM that may be a stranger's: ours is gone, so nothing needs detaching.
            await self._release_one(slot.vgpu_id, detach=False)
        now = self.cloud.clock()
        listed = about(await self.cloud.inventory.vgpus(location, since=now), record)
        binned = about(await self.cloud.inventory.binned_vgpus(location, since=now), record)
        left = [v for v in (*listed, *binned) if self._is_ours(v, record)]
        if strays := [v for v in left if elsewhere(v, self.wanted)]:
            return self._attached_elsewhere(strays[0])
        refusals = [await self._release_one(v.vgpu_id, detach=True) for v in left]
        if refused := next(filter(None, refusals), None):
            message = f"a vGPU cannot be released yet: {refused}"
            return Pending(Reason.DELETING, message, poll)
        if left:
            ids = ", ".join(sorted(v.vgpu_id for v in left))
            message = f"waiting until {location} no longer lists the released {ids}"
            return Pending(Reason.DELETING, message, poll)
        for slot in unanswered(record):
            if self.cloud.clock() - slot.at < self.cloud.waits.settle:
                message = f"the reservation of {slot.name} may still take effect; waiting for it"
                return Pending(Reason.DELETING, message, poll)
        self.cloud.inventory.room_returned(location)
        return None

    def _is_ours(self, listed: VGPU, record: Record) -> bool:
        if listed.vgpu_id in {slot.vgpu_id for slot in held(record)}:
            return True
        names_ = {slot.name for slot in unanswered(record)} | set(record.lost)
        return listed.vgpu_name in names_ and not elsewhere(listed, self.wanted)

    def _attached_elsewhere(self, stray: VGPU) -> Pending:
        vm = stray.virtual_machine
        message = (
            f"the vGPU {stray.vgpu_id} ({stray.vgpu_name}) is attached to the VM"
            f" {vm.name if vm else '?'}, which is not this machine's: detach it there, then it is"
            " released"
        )
        return Pending(Reason.DELETING, message, self.cloud.waits.capacity, failure=True)

    async def _release_one(self, vgpu_id: str, *, detach: bool) -> Refused | None:
        """Release a vGPU for good. Returns the refusal of one that is busy; gone is released."""
        try:
            await self.cloud.vco.gpus.release(
                self.wanted.location, vgpu_id, detach=detach, permanently=True
            )
        except NotFound:
            return None
        except Refused as error:
            return error
        return None

    async def drop_twins(self, record: Record, listed: Iterable[VGPU]) -> Record:
        """Release what turned up under the names of attempts that were given up unanswered.

        Each such attempt can have made one vGPU; its name is forgotten with it, so that nobody
        else's is ever taken for it. Returns the record as it was last saved.
        """
        known = {slot.vgpu_id for slot in held(record)}
        awaited = {slot.name for slot in unanswered(record)}
        kept = record
        for vgpu in listed:
            twin = vgpu.vgpu_name in kept.lost and vgpu.vgpu_name not in awaited
            ours = twin and vgpu.vgpu_id not in known
            if not ours or vgpu.vm_id is not None:
                continue
            if await self._release_one(vgpu.vgpu_id, detach=False) is None:
                lost = tuple(name for name in kept.lost if name != vgpu.vgpu_name)
                kept = msgspec.structs.replace(kept, lost=lost)
        if kept != record:
            await self.save(kept)
        return kept
