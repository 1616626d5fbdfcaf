"""Take a machine down: VM first, then every reservation, the finalizer last."""

from dataclasses import dataclass

from capvco.api.meta import has_annotation
from capvco.api.upstream import DELETE_FOR_MOVE_ANNOTATION
from capvco.controllers.machine_pass import MachinePass
from capvco.controllers.passes import same_customer
from capvco.controllers.report import Notice
from capvco.services.cloud import Cloud
from capvco.services.gpu_attachments import view
from capvco.services.gpu_reservations import held
from capvco.services.outcome import Pending
from capvco.services.record import Record


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
        await self._leave_endpoint(cloud, record)
        machines = self.run.vms(cloud, record)
        if pending := await machines.delete(record, self.run.vm_id):
            return pending
        machines.leave()
        self.run.gpus = view(record, (), None)
        has_gpus = self.run.obj.spec.gpu is not None
        if has_gpus and (pending := await self.run.releases(cloud, record).release(record)):
            return pending
        await self.run.let_go()
        released = len(held(record))
        message = f"the VM is deleted, {released} vGPU(s) released"
        self.run.emit(Notice(warning=False, reason="Released", message=message))
        return None

    async def _leave_endpoint(self, cloud: Cloud, record: Record) -> None:
        """Take a control-plane machine out of the pool before its VM goes."""
        endpoint = self.run.endpoint(cloud, record)
        if endpoint is None:
            return
        # The status may have been lost: then the VM itself is asked.
        where = self.run.address or await self.run.vms(cloud, record).address(record)
        if where:
            await endpoint.remove_member(where)
