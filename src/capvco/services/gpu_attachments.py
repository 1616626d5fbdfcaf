"""Attach the reserved vGPUs to the machine's stopped VM, and see that they stay."""

from collections.abc import Collection
from dataclasses import dataclass

from capvco.api.conditions import Reason
from capvco.api.v1beta1.machine import GPUStatus
from capvco.services.cloud import Cloud
from capvco.services.gpu_reservations import Wanted, about, elsewhere, held
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.vco.errors import Conflict, NotFound
from capvco.vco.models import VGPU


def view(record: Record, listed: tuple[VGPU, ...], vm_id: int | None) -> tuple[GPUStatus, ...]:
    """Return status.gpus: every vGPU that the machine holds, and whether its VM has it."""
    attached = {v.vgpu_id for v in listed if vm_id is not None and _on(v, vm_id)}
    return _statuses(record, attached)


def _statuses(record: Record, attached: Collection[str]) -> tuple[GPUStatus, ...]:
    return tuple(
        GPUStatus(
            vgpu_id=slot.vgpu_id,
            name=slot.name,
            profile_id=slot.profile_id,
            model=slot.model,
            attached=slot.vgpu_id in attached,
        )
        for slot in held(record)
    )


def _on(listed: VGPU, vm_id: int) -> bool:
    return listed.vm_id == vm_id


@dataclass(frozen=True)
class Attachments:
    """The attachments of one machine's vGPUs."""

    cloud: Cloud
    wanted: Wanted

    async def listed(self, record: Record, since: float) -> tuple[VGPU, ...]:
        """Return what the location lists, as of ``since``, of the vGPUs that a record names."""
        return about(await self.cloud.inventory.vgpus(self.wanted.location, since=since), record)

    async def ensure(self, record: Record, vm_id: int) -> tuple[GPUStatus, ...] | Pending:
        """Attach what is not attached yet to the stopped VM. Idempotent.

        Raises Terminal if a vGPU is gone or hangs on another VM. An attach whose answer is lost
        raises the client's error; the next pass sees in the list whether it took effect.
        """
        asked = self.cloud.since(self.cloud.waits.poll / 2)
        listed = await self.listed(record, asked)
        self._refuse_strays(record, listed)
        done = {gpu.vgpu_id for gpu in view(record, listed, vm_id) if gpu.attached}
        for slot in held(record):
            if slot.vgpu_id in done:
                continue
            try:
                await self.cloud.vco.vms.attach_vgpu(self.wanted.cloudspace_id, vm_id, slot.vgpu_id)
            except NotFound as error:
                raise Terminal(
                    Reason.GPU_RESERVATION_LOST,
                    f"the vGPU {slot.vgpu_id} ({slot.name}) cannot be attached: {error}",
                ) from error
            except Conflict as error:
                # Busy, or attached by an earlier attempt that the list does not show yet.
                return Pending(Reason.ATTACHING_GPUS, str(error), self.cloud.waits.poll)
            done.add(slot.vgpu_id)
        return _statuses(record, done)

    def _refuse_strays(self, record: Record, listed: tuple[VGPU, ...]) -> None:
        ids = {slot.vgpu_id for slot in held(record)}
        for vgpu in listed:
            if vgpu.vgpu_id in ids and elsewhere(vgpu, self.wanted) and vgpu.virtual_machine:
                raise Terminal(
                    Reason.GPU_RESERVATION_LOST,
                    f"the vGPU {vgpu.vgpu_id} ({vgpu.vgpu_name}) is attached to the VM"
                    f" {vgpu.virtual_machine.name}, which is not this machine's: detach it there",
                )

    def problems(self, gpus: tuple[GPUStatus, ...], listed: tuple[VGPU, ...]) -> tuple[str, str]:
        """Say in words which held vGPUs are not listed, and which are not attached."""
        present = {v.vgpu_id for v in listed if not v.in_bin}
        gone = [g.vgpu_id for g in gpus if g.vgpu_id not in present]
        loose = [g.vgpu_id for g in gpus if not g.attached]
        lost = f"{self.wanted.location} does not list the reservation(s) {', '.join(gone)}"
        apart = f"the vGPU(s) {', '.join(loose)} are held but not attached to the machine's VM"
        return (lost if gone else ""), (apart if loose else "")
