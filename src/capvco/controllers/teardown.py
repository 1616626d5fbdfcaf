"""Take a machine down: VM first, then every reservation, the finalizer last."""

from dataclasses import dataclass

from capvco.api.meta import has_annotation
from capvco.api.upstream import DELETE_FOR_MOVE_ANNOTATION
from capvco.controllers.machine_pass import MachinePass
from capvco.controllers.passes import same_customer
from capvco.controllers.report import Notice
from capvco.services.gpu_attachments import view
from capvco.services.gpu_reservations import Reservations, held
from capvco.services.outcome import Pending


@dataclass(frozen=True)
class Teardown:
    """The end of one machine. Needs nothing but the VCOMachine and its credentials."""

    run: MachinePass

    async def steps(self) -> Pending | None:
        """Release everything, VM first; the finalizer goes when a read proves it all gone."""
        if has_annotation(self.run.obj.metadata.annotations, DELETE_FOR_MOVE_ANNOTATION):
            self.run.finished = True
            return None
        record = self.run.known = self.run.record()
        if record is None or not (record.gpus or record.lost or record.vm_at):
            await self.run.let_go()
            return None
        cloud = await self.run.cloud(record.identity)
        if isinstance(cloud, Pending):
            return cloud
        same_customer(record, cloud.vco.credentials.customer_id)
        endpoint = self.run.endpoint(cloud, record)
        if endpoint and self.run.address:
            await endpoint.remove_member(self.run.address)
        machines = self.run.vms(cloud, record)
        if pending := await machines.delete(record, self.run.vm_id):
            return pending
        self.run.gpus = view(record, (), None)
        if self.run.obj.spec.gpu is not None:
            reservations = Reservations(cloud, self.run.wanted(record), self.run.save)
            if pending := await reservations.release(record):
                return pending
        await self.run.let_go()
        released = len(held(record))
        message = f"the VM is deleted, {released} vGPU(s) released"
        self.run.emit(Notice(warning=False, reason="Released", message=message))
        return None
