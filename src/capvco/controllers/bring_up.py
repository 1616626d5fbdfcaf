"""Bring a machine up: GPUs reserved, VM made stopped, GPUs attached, VM started.

Each step looks for what an earlier, lost attempt may have made.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import find
from capvco.api.upstream import Secret
from capvco.api.v1beta1.machine import GPURequest
from capvco.bootstrap.userdata import (
    Document,
    Driver,
    Instance,
    UserDataError,
    fitted,
    render,
)
from capvco.controllers import report
from capvco.controllers.kinds import SECRET
from capvco.controllers.machine_pass import MachinePass
from capvco.runtime.errors import NotFound
from capvco.services.cloud import Cloud
from capvco.services.firmware import gpu_warning
from capvco.services.gpu_attachments import Attachments, view
from capvco.services.gpu_reservations import Reservations, held
from capvco.services.labels import node_labels
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.services.vm import HALTED, RUNNING, Machines, address
from capvco.vco.models import VM


class _Plan(NamedTuple):
    """What is known of a VM that is to be made."""

    record: Record
    data: Secret


_OF_GPUS = (
    Reason.GPU_TYPE_UNAVAILABLE,
    Reason.GPU_TYPE_AMBIGUOUS,
    Reason.DRIVER_FOR_STUB_PROFILE,
)


@dataclass(frozen=True)
class BringUp:
    """The way of one machine to its first start."""

    run: MachinePass
    cloud: Cloud

    async def steps(self, record: Record) -> Pending | None:
        """Find or make what is missing, in order; None once the machine runs."""
        part, machines = ConditionType.VM_PROVISIONED, self.run.vms(self.cloud, record)
        if waiting := await self._still(machines, record):
            return waiting
        found = await machines.find(record, self.run.vm_id) or await self._plan(machines, record)
        if isinstance(found, Pending):
            return self.run.part(part, found)
        plan = found if isinstance(found, _Plan) else None
        record, lacking = await self._reserve(plan.record if plan else record, create=bool(plan))
        if lacking:
            if not record.gpus:
                machines.leave()  # it may wait for a card for long
            return self.run.part(ConditionType.GPU_RESERVED, lacking)
        if isinstance(found, _Plan):
            record, found = await self._create(machines, record, found)
        if isinstance(found, Pending):
            return self.run.part(part, found)
        return await self._boot(record, found)

    async def _plan(self, machines: Machines, record: Record) -> _Plan | Pending:
        """Check all that can be checked before anything is paid for."""
        if pending := machines.unsettled(record):
            return pending
        # An earlier attempt is proven absent: its time must not stand for the next one.
        record = msgspec.structs.replace(record, vm_at=0.0)
        data = await self._bootstrap_data()
        self._userdata(data, record)
        await machines.preflight(self._image_id, self.run.obj.spec)
        since = self.cloud.since(self.cloud.waits.poll)
        return await machines.enter(record, since=since) or _Plan(record, data)

    async def _create(
        self, machines: Machines, record: Record, plan: _Plan
    ) -> tuple[Record, VM | Pending]:
        """Make the VM, its intent stored before; return the record as it was last saved."""
        if not record.vm_at:
            record = msgspec.structs.replace(record, vm_at=self.cloud.clock())
            await self.run.save(record)
        userdata = self._userdata(plan.data, record)
        made = await machines.create(record, self._image_id, self.run.obj.spec, userdata)
        if isinstance(made, Pending):
            if made.reason is Reason.WAITING_FOR_PLATFORM:
                # The call may have taken minutes, and what it asked for may go on.
                record = msgspec.structs.replace(record, vm_at=self.cloud.clock())
                await self.run.save(record)
            return record, made
        self.run.vm_id = made
        if vm := await machines.get(made):
            return record, vm
        message = f"the VM {made} was created and is not shown by the platform yet"
        return record, Pending(Reason.CREATING_VM, message, self.cloud.waits.poll)

    async def _still(self, machines: Machines, record: Record) -> Pending | None:
        """Look first at what the machine waited for: mostly it still has to.

        So however many machines wait for the same, they ask for one list an interval, at most.
        Raises Terminal for what somebody still has to correct.
        """
        told = find(self.run.obj.status.conditions, ConditionType.READY)
        begun = record.gpus or record.lost or record.vm_at
        match told.reason if told else None:
            case Reason.CLOUDSPACE_FULL:
                age = self.cloud.since(self.cloud.waits.capacity * 0.9)
                pending = await machines.enter(record, since=age)
                return self.run.part(ConditionType.VM_PROVISIONED, pending) if pending else None
            case reason if begun or reason is None:
                return None
            case Reason.BOOTSTRAP_DATA_INVALID:
                self._userdata(await self._bootstrap_data(), record)
            case Reason.IMAGE_UNAVAILABLE | Reason.BOOT_TYPE_MISMATCH:
                await machines.preflight(self._image_id, self.run.obj.spec)
            case reason if reason in _OF_GPUS and self.run.obj.spec.gpu:
                gpus = Reservations(self.cloud, self.run.wanted(record), self.run.save)
                lacking = await gpus.still_none(record)
                return self.run.part(ConditionType.GPU_RESERVED, lacking) if lacking else None
        return None

    @property
    def _image_id(self) -> int:
        """The image of the machine, as its location numbers it."""
        site = self.run.site
        return (site.image_id if site else None) or self.run.obj.spec.image_id

    async def _reserve(self, record: Record, *, create: bool) -> tuple[Record, Pending | None]:
        """Hold the GPUs; the record of the last one also carries the intent to create the VM."""
        if self.run.obj.spec.gpu is None:
            return record, None

        def closing(last: Record) -> Record:
            return msgspec.structs.replace(last, vm_at=self.cloud.clock()) if create else last

        if record.lost:
            # It may hold the very card that this machine waits for.
            listed = await Attachments(self.cloud, self.run.wanted(record)).listed(
                record, self.cloud.since(self.cloud.waits.poll)
            )
            record = await self.run.releases(self.cloud, record).drop_twins(record, listed)
        reservations = Reservations(self.cloud, self.run.wanted(record), self.run.save, closing)
        record, outcome = await reservations.ensure(record)
        self.run.gpus = view(record, (), None)
        if isinstance(outcome, Pending):
            return record, outcome
        gpu = ConditionType.GPU_RESERVED
        note = outcome.note or self.run.told(gpu)
        self.run.parts[gpu] = report.true(gpu, note)
        return record, None

    async def _boot(self, record: Record, vm: VM) -> Pending | None:
        machines = self.run.vms(self.cloud, record)
        self.run.vm_id = vm.vm_id
        if self.run.obj.spec.gpu is not None:
            attached = await self._attach(record, vm)
            if isinstance(attached, Pending):
                return self.run.part(ConditionType.GPU_ATTACHED, attached)
            vm = attached
            warning = gpu_warning(self.run.obj.spec)
            attached_now = ConditionType.GPU_ATTACHED
            self.run.parts[attached_now] = report.true(attached_now, warning)
        started = await machines.power(vm, run=True)
        if isinstance(started, Pending):
            return self.run.part(ConditionType.VM_PROVISIONED, started)
        self.run.address = address(started)
        if not self.run.address:
            message = f"the VM {vm.vm_id} runs and has no address yet"
            pending = Pending(Reason.CREATING_VM, message, self.cloud.waits.poll)
            return self.run.part(ConditionType.VM_PROVISIONED, pending)
        if waiting := await self._join_endpoint(record):
            return waiting
        self.run.provisioned = True
        self.run.parts[ConditionType.VM_PROVISIONED] = report.true(ConditionType.VM_PROVISIONED)
        return None

    async def _attach(self, record: Record, vm: VM) -> VM | Pending:
        """Attach before first boot; a VM that runs without its GPUs is stopped for it."""
        cloud, machines = self.cloud, self.run.vms(self.cloud, record)
        attachments = Attachments(cloud, self.run.wanted(record))
        listed = await attachments.listed(record, cloud.since(cloud.waits.poll / 2))
        self.run.gpus = view(record, listed, vm.vm_id)
        if all(gpu.attached for gpu in self.run.gpus) and vm.status in {RUNNING, HALTED}:
            return vm
        stopped = await machines.power(vm, run=False)
        if isinstance(stopped, Pending):
            return stopped
        outcome = await attachments.ensure(record, vm.vm_id)
        if isinstance(outcome, Pending):
            return outcome
        self.run.gpus = outcome
        return stopped

    async def _join_endpoint(self, record: Record) -> Pending | None:
        """Put a control-plane machine behind the endpoint, if CAPVCO made that."""
        endpoint = self.run.endpoint(self.cloud, record)
        return await endpoint.add_member(self.run.address) if endpoint else None

    async def _bootstrap_data(self) -> Secret:
        """Return the bootstrap data secret. Raises Terminal if there is none."""
        machine = self.run.scope.machine
        name = (machine.spec.bootstrap.data_secret_name if machine else None) or ""
        namespace = self.run.obj.metadata.namespace
        try:
            return await self.run.tools.kube.get(SECRET, namespace, name)
        except NotFound:
            raise Terminal(
                Reason.BOOTSTRAP_DATA_INVALID,
                f"the bootstrap data secret {namespace}/{name} does not exist",
            ) from None

    def _userdata(self, secret: Secret, record: Record) -> Document:
        """Return the user data of the VM. Raises Terminal if the bootstrap data is unusable."""
        gpus = held(record)
        instance = Instance(
            hostname=self.run.name,
            provider_id=self.run.provider_id(record),
            node_labels=node_labels(
                gpus[0].model if gpus else "",
                self.run.site.name if self.run.site else "",
                record.location,
            ),
            driver=_driver(self.run.obj.spec.gpu),
            kubernetes=self._kubernetes(),
        )
        format_ = secret.data.get("format", b"cloud-config").decode(errors="replace")
        try:
            document = render(secret.data.get("value", b""), format_, instance)
            return fitted(document, self.cloud.max_user_data)
        except UserDataError as error:
            message = f"the bootstrap data secret {secret.metadata.name} cannot be used: {error}"
            raise Terminal(Reason.BOOTSTRAP_DATA_INVALID, message) from None

    def _kubernetes(self) -> str:
        """Return the version to install where the image has none; empty where nothing is."""
        machine = self.run.scope.machine
        wanted = machine is not None and self.run.obj.spec.install_kubernetes == "IfMissing"
        return machine.spec.version if machine and wanted else ""


def _driver(gpu: GPURequest | None) -> Driver | None:
    """Return the driver to install; None where none is asked for."""
    return Driver(gpu.driver_version, gpu.count) if gpu and gpu.driver_version else None
