"""One reconcile of one VCOMachine: what is known of it, its record, its status.

The work itself is in ``bring_up``, ``upkeep`` and ``teardown``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from capvco.api.conditions import ConditionType
from capvco.api.meta import Condition
from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.api.v1beta1.cluster import Initialization, Site
from capvco.api.v1beta1.machine import GPUStatus, MachineAddress, VCOMachine, VCOMachineStatus
from capvco.controllers import gates, report
from capvco.controllers.clouds import Clouds
from capvco.controllers.gpu_driver import DriverLooks
from capvco.controllers.metrics import StageSeconds
from capvco.controllers.nodes import Nodes
from capvco.controllers.passes import Pass, Tools, same_customer
from capvco.controllers.scope import Caches, MachineScope
from capvco.services import names
from capvco.services import record as records
from capvco.services.cloud import Cloud
from capvco.services.gpu_releases import Releases
from capvco.services.gpu_reservations import Wanted
from capvco.services.loadbalancer import ControlPlane
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.services.vm import Machines, Place


@dataclass(frozen=True)
class MachineTools:
    """What all passes over VCOMachines share."""

    tools: Tools[VCOMachine]
    caches: Caches
    clouds: Clouds
    stages: StageSeconds
    nodes: Nodes
    drivers: DriverLooks = field(default_factory=DriverLooks)


class MachinePass(Pass[VCOMachine]):
    """One reconcile of one VCOMachine."""

    def __init__(self, shared: MachineTools, scope: MachineScope) -> None:
        super().__init__(shared.tools, scope.vco_machine)
        self.clouds = shared.clouds
        self.stages = shared.stages
        self.nodes = shared.nodes
        self.drivers = shared.drivers
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

    async def cloud(self, identity: str) -> Cloud | Pending:
        """Return the cloud of a credentials Secret of the machine's namespace."""
        return await self.clouds.get(self.obj.metadata.namespace, identity)

    def load(self, cloud: Cloud, site: Site, identity: str) -> Record:
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

    def record(self) -> Record | None:
        """Return the stored record. Raises CorruptRecord, also for one that somebody removed."""
        stored = super().record()
        if stored is None and self.obj.spec.provider_id:
            # Both are stored in one write, so something may be held that nothing tells of.
            raise records.CorruptRecord(
                f"the annotation {RECORD_ANNOTATION} is missing although spec.providerID is set;"
                " it says what this object holds in the cloud: restore it, or list what is held"
                " with capvco-gpucheck"
            )
        return stored

    async def save(self, record: Record) -> None:
        """Store the record, and remember it for the status."""
        await super().save(record)
        self.known = record

    def metadata(self, record: Record) -> Mapping[str, object]:
        """Return the record and the provider id: the whole intent of the manager ``capvco``."""
        return {
            "metadata": {"annotations": {RECORD_ANNOTATION: records.dump(record)}},
            "spec": {"providerID": self.provider_id(record)},
        }

    def provider_id(self, record: Record) -> str:
        """Return the machine's identity for Kubernetes: never another one than before."""
        meta = self.obj.metadata
        return self.obj.spec.provider_id or names.provider_id(
            record.location, meta.namespace, meta.name, record.owner
        )

    def part(self, type_: ConditionType, pending: Pending) -> Pending:
        """Say in a condition that a part is not there yet; return what is waited for."""
        self.parts[type_] = report.false(type_, pending)
        return pending

    def told(self, type_: ConditionType) -> str:
        """Return the message of a condition that holds: a choice once told stays told."""
        held_ = (c for c in self.obj.status.conditions if c.type == type_ and c.status == "True")
        return next((c.message for c in held_), "")

    def endpoint(self, cloud: Cloud, record: Record) -> ControlPlane | None:
        """Return the endpoint that the machine is a member of, if CAPVCO made that."""
        machine, vco_cluster = self.scope.machine, self.scope.vco_cluster
        if machine is None or vco_cluster is None or not machine.is_control_plane:
            return None
        of_cluster = records.read(vco_cluster.metadata.annotations)
        if of_cluster is None or not of_cluster.endpoint:
            return None
        namespace, cluster = self.obj.metadata.namespace, machine.spec.cluster_name
        return ControlPlane(cloud, namespace, cluster, of_cluster.owner, record.cloudspace_id)

    def vms(self, cloud: Cloud, record: Record) -> Machines:
        """Return the operations on the machine's VM."""
        return Machines(cloud, self.place(record))

    def place(self, record: Record) -> Place:
        """Say where the VM is."""
        vco_cluster = self.scope.vco_cluster
        return Place(
            namespace=self.obj.metadata.namespace,
            name=self.name,
            location=record.location,
            cloudspace_id=record.cloudspace_id,
            private_network=gates.private_network_of(vco_cluster, record.cloudspace_id)
            if vco_cluster
            else "",
        )

    def releases(self, cloud: Cloud, record: Record) -> Releases:
        """Return the operations on the machine's vGPUs; only for one that asks for any."""
        return Releases(cloud, self.wanted(record), self.save)

    def wanted(self, record: Record) -> Wanted:
        """Return what GPUs the machine asks for; only for one that asks for any."""
        request = self.obj.spec.gpu
        assert request is not None  # noqa: S101 - called for machines with GPUs only
        return Wanted(
            machine=self.name,
            location=record.location,
            cloudspace_id=record.cloudspace_id,
            request=request,
        )

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
            location=self._location(record),
            cloudspace_id=record.cloudspace_id if record else before.cloudspace_id,
            vm_id=self.vm_id,
            gpus=self.gpus,
            failure_reason=pending.reason if pending and failing else "",
            failure_message=pending.message if pending and failing else "",
            conditions=conditions,
        )

    def _location(self, record: Record | None) -> str:
        if record:
            return record.location
        return self.site.location if self.site else self.obj.status.location

    def reported(self, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        """Count the stages that a machine reaches on its way up."""
        initialization = self.scope.vco_machine.status.initialization
        if not (initialization and initialization.provisioned):
            self.stages.observe(self.obj.metadata.creation_timestamp, before, after)

    def _phase(self, *, failing: bool) -> str:
        if self.deleting:
            return "Deleting"
        if failing:
            return "Failed"
        if self.provisioned:
            return "Running"
        return "Provisioning" if self.known else "Pending"
