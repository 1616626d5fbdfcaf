"""Watch over a provisioned machine: report what is wrong, and never make a second VM."""

from dataclasses import dataclass
from datetime import datetime

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import find
from capvco.api.v1beta1 import GPU_ADDON_LABEL
from capvco.controllers import report
from capvco.controllers.machine_pass import MachinePass
from capvco.controllers.nodes import gpu_ready
from capvco.runtime.kinds import key_of
from capvco.services.cloud import Cloud
from capvco.services.firmware import gpu_warning
from capvco.services.gpu_attachments import Attachments, view
from capvco.services.gpu_reservations import held
from capvco.services.gpu_types import is_stub
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.services.vm import RUNNING, address


@dataclass(frozen=True)
class Upkeep:
    """One look at a machine that was provisioned."""

    run: MachinePass
    cloud: Cloud

    async def steps(self, record: Record) -> Pending | None:
        """Look at the machine; None if all is well.

        Changes nothing in the cloud, but for the release of what an attempt to reserve that was
        given up has brought after all.
        """
        cloud = self.cloud
        self.run.provisioned = True
        machines = self.run.vms(cloud, record)
        fresh = self._since(ConditionType.VM_PROVISIONED)
        vm = await machines.look(record, self.run.vm_id, since=fresh)
        if vm is None:
            message = (
                f"the VM of this machine ({self.run.vm_id or 'id unknown'}) does not exist any more"
                f" in {record.cloudspace_id}; no second one is made: delete the Machine, or let a"
                " MachineHealthCheck do it"
            )
            pending = Pending(Reason.VM_GONE, message, cloud.waits.resync, failure=True)
            return self.run.part(ConditionType.VM_PROVISIONED, pending)
        self.run.vm_id = vm.vm_id
        self._look_at_node(record)
        self.run.address = address(vm) or self.run.address
        if self.run.obj.spec.gpu is not None and (problem := await self._check_gpus(record)):
            return problem
        if vm.status != RUNNING:
            message = f"the VM {vm.vm_id} is {vm.status}: start it, or delete the Machine"
            pending = Pending(Reason.VM_NOT_RUNNING, message, cloud.waits.resync)
            return self.run.part(ConditionType.VM_PROVISIONED, pending)
        self.run.parts[ConditionType.VM_PROVISIONED] = report.true(ConditionType.VM_PROVISIONED)
        await self._look_at_driver(record, vm.vm_id)
        return None

    async def _look_at_driver(self, record: Record, vm_id: int) -> None:
        """Report how the GPU step of the first boot ended; once it is well, that stays."""
        gpu, type_ = self.run.obj.spec.gpu, ConditionType.GPU_DRIVER_READY
        told = find(self.run.obj.status.conditions, type_)
        if gpu is None or not gpu.driver_version:
            self.run.dropped.add(type_)
        elif told is None or told.status != "True":
            key = key_of(self.run.obj)
            ready = self.run.parts.get(ConditionType.GPU_READY)
            if ready is not None and ready.status == "True":
                self.run.parts[type_] = report.true(type_, ready.message)
                return
            started = self._changed(ConditionType.VM_PROVISIONED)
            if self.run.drivers.due(key, started):
                self.run.parts[type_] = await self.run.drivers.look(
                    self.cloud, key, started, record.cloudspace_id, vm_id
                )

    async def _check_gpus(self, record: Record) -> Pending | None:
        attachments = Attachments(self.cloud, self.run.wanted(record))
        fresh = self._since(ConditionType.GPU_ATTACHED)
        listed = await attachments.listed(record, fresh)
        if record.lost:
            await self.run.releases(self.cloud, record).drop_twins(record, listed)
        self.run.gpus = view(record, listed, self.run.vm_id)
        lost, loose = attachments.problems(self.run.gpus, listed)
        wait = self.cloud.waits.resync
        reserved, attached = ConditionType.GPU_RESERVED, ConditionType.GPU_ATTACHED
        if lost:
            pending = Pending(Reason.GPU_RESERVATION_LOST, lost, wait, failure=True)
            return self.run.part(reserved, pending)
        self.run.parts[reserved] = report.true(reserved, self.run.told(reserved))
        if loose:
            return self.run.part(attached, Pending(Reason.ATTACHING_GPUS, loose, wait))
        self.run.parts[attached] = report.true(attached, gpu_warning(self.run.obj.spec))
        return None

    def _look_at_node(self, record: Record) -> None:
        """Report whether the node offers its GPUs; waits for nothing and changes nothing else."""
        gpu, cluster = self.run.obj.spec.gpu, self.run.scope.cluster
        slots = held(record)
        left_off = cluster is None or cluster.metadata.labels.get(GPU_ADDON_LABEL) == "none"
        if gpu is None or cluster is None or left_off or not slots or is_stub(slots[0].model):
            self.run.dropped.add(ConditionType.GPU_READY)
            return
        seen = self.run.nodes.get(key_of(cluster))
        if seen is not None:
            ready = gpu_ready(seen, self.run.provider_id(record), gpu.count)
            self.run.parts[ConditionType.GPU_READY] = ready

    def _since(self, type_: ConditionType) -> float:
        """Return how old a shared list may be: never older than what we last did ourselves."""
        return max(self.cloud.recent(), self._changed(type_) + 1.0)

    def _changed(self, type_: ConditionType) -> float:
        """Return when a condition last changed; 0 if it is not there."""
        told = find(self.run.obj.status.conditions, type_)
        return datetime.fromisoformat(told.last_transition_time).timestamp() if told else 0.0
