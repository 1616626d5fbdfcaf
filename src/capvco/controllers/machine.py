"""VCOMachine: the order of the services, and what of it goes into the status."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, ObjectMeta, find, has_annotation
from capvco.api.upstream import DELETE_FOR_MOVE_ANNOTATION, Secret
from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.api.v1beta1.cluster import Initialization, Site
from capvco.api.v1beta1.machine import GPUStatus, MachineAddress, VCOMachine, VCOMachineStatus
from capvco.bootstrap.userdata import Document, Instance, UserDataError, render
from capvco.controllers import gates, report
from capvco.controllers.clouds import Clouds
from capvco.controllers.kinds import SECRET
from capvco.controllers.passes import Pass, Tools, same_customer
from capvco.controllers.report import Notice
from capvco.controllers.scope import Caches, MachineScope, machine_scope
from capvco.runtime.controller import Result
from capvco.runtime.errors import NotFound
from capvco.runtime.kinds import Key
from capvco.services import names
from capvco.services import record as records
from capvco.services.cloud import Cloud
from capvco.services.gpu_attachments import Attachments, view
from capvco.services.gpu_reservations import Reservations, Wanted, held
from capvco.services.labels import node_labels
from capvco.services.loadbalancer import ControlPlane
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.services.vm import HALTED, RUNNING, Machines, Place, address
from capvco.vco.models import VM

_NO_DATA = Secret(metadata=ObjectMeta())


@dataclass(frozen=True)
class MachineReconciler:
    """Reconciles VCOMachines."""

    tools: Tools[VCOMachine]
    caches: Caches
    clouds: Clouds

    async def reconcile(self, key: Key) -> Result:
        """Bring one VCOMachine a step nearer to what its spec says. Idempotent."""
        vco_machine = self.caches.vco_machines.get(key)
        if vco_machine is None:
            return Result()
        return await MachinePass(self, machine_scope(self.caches, vco_machine)).run()


class MachinePass(Pass[VCOMachine]):
    """One reconcile of one VCOMachine."""

    def __init__(self, reconciler: MachineReconciler, scope: MachineScope) -> None:
        super().__init__(reconciler.tools, scope.vco_machine)
        self.clouds = reconciler.clouds
        self.scope = scope
        before = scope.vco_machine.status
        self.gpus: tuple[GPUStatus, ...] = before.gpus
        self.vm_id = before.vm_id
        self.address = next((a.address for a in before.addresses if a.type == "InternalIP"), "")
        self.site: Site | None = None
        self.known: Record | None = None
        """The record as it was last stored in this pass."""
        self.provisioned = bool(before.initialization and before.initialization.provisioned)

    @property
    def name(self) -> str:
        """Name of the VCOMachine, and of its VM."""
        return self.obj.metadata.name

    async def steps(self) -> Pending | None:
        """Pause comes first, then deletion, then everything else."""
        if why := self.scope.paused:
            self.parts[ConditionType.PAUSED] = report.paused(yes=True, why=why)
            return None
        if self.deleting:
            return await self._teardown()
        if gates.newborn(self.scope, self.tools.clock()):
            self.finished = True
            return None
        return await self._provision()

    # --- bring up ---

    async def _provision(self) -> Pending | None:
        if pending := gates.owner(self.scope) or gates.infrastructure(self.scope):
            return pending
        machine, vco_cluster = self.scope.machine, self.scope.vco_cluster
        assert machine is not None and vco_cluster is not None  # noqa: S101, PT018 - the gates' word
        self.site = gates.site(vco_cluster, machine.spec.failure_domain)
        if not machine.spec.provider_id and (pending := gates.bootstrap(self.scope)):
            return pending
        cloud = await self._cloud(vco_cluster.spec.identity_ref.name)
        if isinstance(cloud, Pending):
            return cloud
        await self.hold()
        record = self._record(cloud, self.site, vco_cluster.spec.identity_ref.name)
        if not record.cloudspace_id:
            message = f"the VCOCluster {vco_cluster.metadata.name} has no cloudspace yet"
            return Pending(Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE, message, gates.WAIT)
        if machine.spec.provider_id or self.provisioned:
            return await self._watch_over(cloud, record)
        return await self._bring_up(cloud, record)

    async def _cloud(self, identity: str) -> Cloud | Pending:
        return await self.clouds.get(self.obj.metadata.namespace, identity)

    def _record(self, cloud: Cloud, site: Site, identity: str) -> Record:
        """Return the stored record, or a new one that is not stored yet."""
        customer = cloud.vco.credentials.customer_id
        if stored := self.record():
            self.known = stored
            same_customer(stored, customer)
            return stored
        vco_cluster = self.scope.vco_cluster
        return Record(
            owner=self.obj.metadata.uid,
            customer=customer,
            identity=identity,
            location=site.location,
            cloudspace_id=gates.cloudspace_of(vco_cluster, site) if vco_cluster else "",
        )

    async def save(self, record: Record) -> None:
        """Store the record, and remember it for the status."""
        await super().save(record)
        self.known = record

    def metadata(self, record: Record) -> Mapping[str, object]:
        """Return the record and the provider id: the whole intent of the manager ``capvco``."""
        return {
            "metadata": {"annotations": {RECORD_ANNOTATION: records.dump(record)}},
            "spec": {"providerID": self._provider_id(record)},
        }

    def _provider_id(self, record: Record) -> str:
        meta = self.obj.metadata
        return self.obj.spec.provider_id or names.provider_id(
            record.location, meta.namespace, meta.name, record.owner
        )

    async def _bring_up(self, cloud: Cloud, record: Record) -> Pending | None:
        machines = Machines(cloud, self._place(record))
        vm = await machines.find(record, self.vm_id)
        data = _NO_DATA
        image_id = self.obj.spec.image_id
        if vm is None:
            if pending := machines.unsettled(record):
                return self._part(ConditionType.VM_PROVISIONED, pending)
            # An earlier attempt is proven absent: its time must not stand for the next one.
            record = msgspec.structs.replace(record, vm_at=0.0)
            data = await self._bootstrap_data()
            self._userdata(data, record)  # before anything is paid for
            image_id = (self.site.image_id if self.site else None) or image_id
            await machines.preflight(image_id, self.obj.spec)
        record, lacking = await self._reserve(cloud, record, create=vm is None)
        if lacking:
            return self._part(ConditionType.GPU_RESERVED, lacking)
        if vm is None:
            if not record.vm_at:
                record = msgspec.structs.replace(record, vm_at=cloud.clock())
                await self.save(record)
            userdata = self._userdata(data, record)
            made = await machines.create(record, image_id, self.obj.spec, userdata)
            if isinstance(made, Pending):
                return self._part(ConditionType.VM_PROVISIONED, made)
            self.vm_id = made
            vm = await machines.get(made)
        if vm is None:
            message = f"the VM {self.vm_id} was created and is not shown by the platform yet"
            pending = Pending(Reason.CREATING_VM, message, cloud.waits.poll)
            return self._part(ConditionType.VM_PROVISIONED, pending)
        return await self._boot(cloud, record, vm)

    def _part(self, type_: ConditionType, pending: Pending) -> Pending:
        self.parts[type_] = report.false(type_, pending)
        return pending

    async def _reserve(
        self, cloud: Cloud, record: Record, *, create: bool
    ) -> tuple[Record, Pending | None]:
        """Hold the GPUs; the record of the last one also carries the intent to create the VM."""
        if self.obj.spec.gpu is None:
            return record, None
        now = cloud.clock

        def closing(last: Record) -> Record:
            return msgspec.structs.replace(last, vm_at=now()) if create else last

        reservations = Reservations(cloud, self._wanted(record), self.save, closing)
        record, outcome = await reservations.ensure(record)
        self.gpus = view(record, (), None)
        if isinstance(outcome, Pending):
            return record, outcome
        gpu = ConditionType.GPU_RESERVED
        note = outcome.note or self._told(gpu)
        self.parts[gpu] = report.true(gpu, note)
        return record, None

    def _told(self, type_: ConditionType) -> str:
        """Return the message of a condition that holds: a choice once told stays told."""
        held_ = (c for c in self.obj.status.conditions if c.type == type_ and c.status == "True")
        return next((c.message for c in held_), "")

    async def _boot(self, cloud: Cloud, record: Record, vm: VM) -> Pending | None:
        machines = Machines(cloud, self._place(record))
        self.vm_id = vm.vm_id
        if self.obj.spec.gpu is not None:
            attached = await self._attach(cloud, record, machines, vm)
            if isinstance(attached, Pending):
                return self._part(ConditionType.GPU_ATTACHED, attached)
            vm = attached
            self.parts[ConditionType.GPU_ATTACHED] = report.true(ConditionType.GPU_ATTACHED)
        started = await machines.power(vm, run=True)
        if isinstance(started, Pending):
            return self._part(ConditionType.VM_PROVISIONED, started)
        self.address = address(started)
        if not self.address:
            message = f"the VM {vm.vm_id} runs and has no address yet"
            pending = Pending(Reason.CREATING_VM, message, cloud.waits.poll)
            return self._part(ConditionType.VM_PROVISIONED, pending)
        if waiting := await self._join_endpoint(cloud, record):
            return waiting
        self.provisioned = True
        self.parts[ConditionType.VM_PROVISIONED] = report.true(ConditionType.VM_PROVISIONED)
        return None

    async def _attach(
        self, cloud: Cloud, record: Record, machines: Machines, vm: VM
    ) -> VM | Pending:
        """Attach before first boot; a VM that runs without its GPUs is stopped for it."""
        attachments = Attachments(cloud, self._wanted(record))
        listed = await attachments.listed(cloud.since(cloud.waits.poll / 2))
        self.gpus = view(record, listed, vm.vm_id)
        if all(gpu.attached for gpu in self.gpus) and vm.status in {RUNNING, HALTED}:
            return vm
        stopped = await machines.power(vm, run=False)
        if isinstance(stopped, Pending):
            return stopped
        outcome = await attachments.ensure(record, vm.vm_id)
        if isinstance(outcome, Pending):
            return outcome
        self.gpus = outcome
        return stopped

    async def _join_endpoint(self, cloud: Cloud, record: Record) -> Pending | None:
        """Put a control-plane machine behind the endpoint, if CAPVCO made that."""
        endpoint = self._endpoint(cloud, record)
        return await endpoint.add_member(self.address) if endpoint else None

    def _endpoint(self, cloud: Cloud, record: Record) -> ControlPlane | None:
        machine, vco_cluster = self.scope.machine, self.scope.vco_cluster
        if machine is None or vco_cluster is None or not machine.is_control_plane:
            return None
        of_cluster = records.read(vco_cluster.metadata.annotations)
        if of_cluster is None or not of_cluster.endpoint:
            return None
        namespace, cluster = self.obj.metadata.namespace, machine.spec.cluster_name
        return ControlPlane(cloud, namespace, cluster, of_cluster.owner, record.cloudspace_id)

    async def _bootstrap_data(self) -> Secret:
        """Return the bootstrap data secret. Raises Terminal if there is none."""
        machine = self.scope.machine
        name = (machine.spec.bootstrap.data_secret_name if machine else None) or ""
        namespace = self.obj.metadata.namespace
        try:
            return await self.tools.kube.get(SECRET, namespace, name)
        except NotFound:
            raise Terminal(
                Reason.BOOTSTRAP_DATA_INVALID,
                f"the bootstrap data secret {namespace}/{name} does not exist",
            ) from None

    def _userdata(self, secret: Secret, record: Record) -> Document:
        """Return the user data of the VM. Raises Terminal if the bootstrap data is unusable."""
        gpus = held(record)
        instance = Instance(
            hostname=self.name,
            provider_id=self._provider_id(record),
            node_labels=node_labels(gpus[0].model) if gpus else {},
        )
        format_ = secret.data.get("format", b"cloud-config").decode(errors="replace")
        try:
            return render(secret.data.get("value", b""), format_, instance)
        except UserDataError as error:
            message = f"the bootstrap data secret {secret.metadata.name} cannot be used: {error}"
            raise Terminal(Reason.BOOTSTRAP_DATA_INVALID, message) from None

    def _place(self, record: Record) -> Place:
        return Place(
            namespace=self.obj.metadata.namespace,
            name=self.name,
            location=record.location,
            cloudspace_id=record.cloudspace_id,
        )

    def _wanted(self, record: Record) -> Wanted:
        request = self.obj.spec.gpu
        assert request is not None  # noqa: S101 - called for machines with GPUs only
        return Wanted(
            machine=self.name,
            location=record.location,
            cloudspace_id=record.cloudspace_id,
            request=request,
        )

    # --- once it lives ---

    async def _watch_over(self, cloud: Cloud, record: Record) -> Pending | None:
        """Look at a provisioned machine: report what is wrong, and never make a second VM."""
        self.provisioned = True
        machines = Machines(cloud, self._place(record))
        fresh = self._since(cloud, ConditionType.VM_PROVISIONED)
        vm = await machines.look(record, self.vm_id, since=fresh)
        if vm is None:
            message = (
                f"the VM of this machine ({self.vm_id or 'id unknown'}) does not exist any more in"
                f" {record.cloudspace_id}; no second one is made: delete the Machine, or let a"
                " MachineHealthCheck do it"
            )
            pending = Pending(Reason.VM_GONE, message, cloud.waits.resync, failure=True)
            return self._part(ConditionType.VM_PROVISIONED, pending)
        self.vm_id = vm.vm_id
        self.address = address(vm) or self.address
        if self.obj.spec.gpu is not None and (problem := await self._check_gpus(cloud, record)):
            return problem
        if vm.status != RUNNING:
            message = f"the VM {vm.vm_id} is {vm.status}: start it, or delete the Machine"
            pending = Pending(Reason.VM_NOT_RUNNING, message, cloud.waits.resync)
            return self._part(ConditionType.VM_PROVISIONED, pending)
        self.parts[ConditionType.VM_PROVISIONED] = report.true(ConditionType.VM_PROVISIONED)
        return None

    async def _check_gpus(self, cloud: Cloud, record: Record) -> Pending | None:
        attachments = Attachments(cloud, self._wanted(record))
        fresh = self._since(cloud, ConditionType.GPU_ATTACHED)
        listed = await attachments.listed(fresh)
        self.gpus = view(record, listed, self.vm_id)
        lost, loose = attachments.problems(self.gpus, listed)
        wait = cloud.waits.resync
        reserved, attached = ConditionType.GPU_RESERVED, ConditionType.GPU_ATTACHED
        if lost:
            pending = Pending(Reason.GPU_RESERVATION_LOST, lost, wait, failure=True)
            return self._part(reserved, pending)
        self.parts[reserved] = report.true(reserved, self._told(reserved))
        if loose:
            return self._part(attached, Pending(Reason.ATTACHING_GPUS, loose, wait))
        self.parts[attached] = report.true(attached)
        return None

    def _since(self, cloud: Cloud, type_: ConditionType) -> float:
        """Return how old a shared list may be: never older than what we last did ourselves."""
        told = find(self.obj.status.conditions, type_)
        changed = datetime.fromisoformat(told.last_transition_time).timestamp() if told else 0.0
        return max(cloud.since(cloud.waits.resync / 2), changed + 1.0)

    # --- take down ---

    async def _teardown(self) -> Pending | None:
        """Release everything, VM first; the finalizer goes when a read proves it all gone."""
        if has_annotation(self.obj.metadata.annotations, DELETE_FOR_MOVE_ANNOTATION):
            self.finished = True
            return None
        record = self.known = self.record()
        if record is None or not (record.gpus or record.lost or record.vm_at):
            await self.let_go()
            return None
        cloud = await self._cloud(record.identity)
        if isinstance(cloud, Pending):
            return cloud
        same_customer(record, cloud.vco.credentials.customer_id)
        endpoint = self._endpoint(cloud, record)
        if endpoint and self.address:
            await endpoint.remove_member(self.address)
        machines = Machines(cloud, self._place(record))
        if pending := await machines.delete(record, self.vm_id):
            return pending
        self.gpus = view(record, (), None)
        if self.obj.spec.gpu is not None:
            reservations = Reservations(cloud, self._wanted(record), self.save)
            if pending := await reservations.release(record):
                return pending
        await self.let_go()
        released = len(held(record))
        message = f"the VM is deleted, {released} vGPU(s) released"
        self.emit(Notice(warning=False, reason="Released", message=message))
        return None

    # --- status ---

    def status(
        self, conditions: tuple[Condition, ...], pending: Pending | None
    ) -> VCOMachineStatus:
        """Return the whole status."""
        before, record = self.obj.status, self.known
        failing = pending is not None and pending.failure
        provisioned = Initialization(provisioned=True) if self.provisioned else None
        addresses = (MachineAddress(type="InternalIP", address=self.address),)
        return VCOMachineStatus(
            initialization=provisioned,
            phase=self._phase(failing=failing),
            addresses=addresses if self.address else (),
            failure_domain=self.site.name if self.site else before.failure_domain,
            location=record.location if record else before.location,
            cloudspace_id=record.cloudspace_id if record else before.cloudspace_id,
            vm_id=self.vm_id,
            gpus=self.gpus,
            failure_reason=pending.reason if pending and failing else "",
            failure_message=pending.message if pending and failing else "",
            conditions=conditions,
        )

    def _phase(self, *, failing: bool) -> str:
        if self.deleting:
            return "Deleting"
        if failing:
            return "Failed"
        if self.provisioned:
            return "Running"
        return "Provisioning" if self.known else "Pending"
