"""VCOCluster: cloudspace, control-plane endpoint, failure domains."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, has_annotation
from capvco.api.upstream import DELETE_FOR_MOVE_ANNOTATION, MANAGED_BY_ANNOTATION
from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.api.v1beta1.cluster import (
    CloudspaceSpec,
    ControlPlaneEndpoint,
    FailureDomain,
    Initialization,
    LoadBalancerStatus,
    Site,
    SiteStatus,
    VCOCluster,
    VCOClusterStatus,
)
from capvco.controllers import gates, report
from capvco.controllers.clouds import Clouds
from capvco.controllers.passes import Pass, Tools, same_customer
from capvco.controllers.scope import Caches, ClusterScope, cluster_scope
from capvco.runtime.controller import Result
from capvco.runtime.kinds import Key
from capvco.services import names
from capvco.services import record as records
from capvco.services.cloud import Cloud
from capvco.services.cloudspace import Cloudspaces
from capvco.services.loadbalancer import API_SERVER_PORT, ControlPlane
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.vco.models import Cloudspace

MACHINES_BY_CLUSTER = "cluster"
"""Index of VCOMachines by ``<namespace>/<cluster>``."""


@dataclass(frozen=True)
class ClusterReconciler:
    """Reconciles VCOClusters."""

    tools: Tools[VCOCluster]
    caches: Caches
    clouds: Clouds

    async def reconcile(self, key: Key) -> Result:
        """Bring one VCOCluster a step nearer to what its spec says. Idempotent."""
        vco_cluster = self.caches.vco_clusters.get(key)
        if vco_cluster is None or has_annotation(
            vco_cluster.metadata.annotations, MANAGED_BY_ANNOTATION
        ):
            return Result()
        return await ClusterPass(self, cluster_scope(self.caches, vco_cluster)).run()


class ClusterPass(Pass[VCOCluster]):
    """One reconcile of one VCOCluster."""

    def __init__(self, reconciler: ClusterReconciler, scope: ClusterScope) -> None:
        super().__init__(reconciler.tools, scope.vco_cluster)
        self.reconciler = reconciler
        self.scope = scope
        before = scope.vco_cluster.status
        self.site: Site = scope.vco_cluster.spec.all_sites[0]
        self.cloudspace: Cloudspace | None = None
        self.balancer: LoadBalancerStatus | None = before.load_balancer
        self.provisioned = bool(before.initialization and before.initialization.provisioned)

    async def steps(self) -> Pending | None:
        """Pause comes first, then deletion, then everything else."""
        if why := self.scope.paused:
            self.parts[ConditionType.PAUSED] = report.paused(yes=True, why=why)
            return None
        if self.deleting:
            return await self._teardown()
        if self.scope.cluster is None:
            message = f"no Cluster owns {self.obj.metadata.name} yet"
            return Pending(Reason.WAITING_FOR_OWNER, message, gates.WAIT)
        cloud = await self._cloud()
        if isinstance(cloud, Pending):
            return cloud
        await self.hold()
        return await self._provision(cloud, self._record(cloud))

    async def _cloud(self) -> Cloud | Pending:
        spec = self.obj.spec
        return await self.reconciler.clouds.get(self.obj.metadata.namespace, spec.identity_ref.name)

    def _record(self, cloud: Cloud) -> Record:
        customer = cloud.vco.credentials.customer_id
        stored = self.record()
        if stored is None:
            identity = self.obj.spec.identity_ref.name
            return Record(owner=self.obj.metadata.uid, customer=customer, identity=identity)
        same_customer(stored, customer)
        return stored

    def record(self) -> Record | None:
        """Return the stored record. Raises CorruptRecord, also for one that somebody removed."""
        stored = super().record()
        given = self.obj.spec.cloudspace.id if self.obj.spec.cloudspace else None
        made = [site.cloudspace_id for site in self.obj.status.sites if site.cloudspace_id]
        if stored is None and given is None and made:
            raise records.CorruptRecord(
                f"the annotation {RECORD_ANNOTATION} is missing although the cloudspace {made[0]}"
                " was made for this cluster: restore it, or delete the cloudspace yourself and then"
                " the finalizer"
            )
        return stored

    def metadata(self, record: Record) -> Mapping[str, object]:
        """Return the record, and the endpoint if CAPVCO made it."""
        body: dict[str, object] = {
            "metadata": {"annotations": {RECORD_ANNOTATION: records.dump(record)}}
        }
        endpoint = self.obj.spec.control_plane_endpoint or self._new_endpoint()
        if record.endpoint and endpoint:
            body["spec"] = {"controlPlaneEndpoint": msgspec.to_builtins(endpoint)}
        return body

    def _new_endpoint(self) -> ControlPlaneEndpoint | None:
        host = self.cloudspace.external_network_ip if self.cloudspace else ""
        return ControlPlaneEndpoint(host=host, port=API_SERVER_PORT) if host else None

    def _cloudspaces(self, cloud: Cloud) -> Cloudspaces:
        meta, spec = self.obj.metadata, self.obj.spec
        name = names.cluster_resource(meta.namespace, meta.name)
        return Cloudspaces(cloud, self.site, spec.cloudspace or CloudspaceSpec(), name)

    async def _provision(self, cloud: Cloud, record: Record) -> Pending | None:
        part = ConditionType.CLOUDSPACE_READY
        record, found = await self._cloudspaces(cloud).ensure(record, self.save)
        if isinstance(found, Pending):
            self.parts[part] = report.false(part, found)
            return found
        self.cloudspace = found
        self.parts[part] = report.true(part)
        part = ConditionType.CONTROL_PLANE_ENDPOINT_READY
        if pending := await self._endpoint(cloud, record, found):
            self.parts[part] = report.false(part, pending)
            return pending
        self.parts[part] = report.true(part)
        self.provisioned = True
        return None

    async def _endpoint(self, cloud: Cloud, record: Record, found: Cloudspace) -> Pending | None:
        """Serve the endpoint, unless the user gave one of their own."""
        if self.obj.spec.control_plane_endpoint is not None and not record.endpoint:
            return None
        if self._new_endpoint() is None:
            return Pending(
                Reason.CLOUDSPACE_UNAVAILABLE,
                f"the cloudspace {found.name} has no external address for the control-plane"
                " endpoint: use one with an external network, or set spec.controlPlaneEndpoint",
                cloud.waits.resync,
                failure=True,
            )
        if not record.endpoint:
            # Said before it is made: deletion must know that the balancer is ours.
            record = msgspec.structs.replace(record, endpoint=True)
            await self.save(record)
        outcome = await self._control_plane(cloud, record, found.cloudspace_id).ensure(
            API_SERVER_PORT
        )
        if isinstance(outcome, Pending):
            return outcome
        self.balancer = outcome
        return None

    def _control_plane(self, cloud: Cloud, record: Record, cloudspace_id: str) -> ControlPlane:
        meta = self.obj.metadata
        cluster = self.scope.cluster.metadata.name if self.scope.cluster else meta.name
        return ControlPlane(cloud, meta.namespace, cluster, record.owner, cloudspace_id)

    async def _teardown(self) -> Pending | None:
        """Machines first, then the endpoint, then the cloudspace, the finalizer last."""
        if has_annotation(self.obj.metadata.annotations, DELETE_FOR_MOVE_ANNOTATION):
            self.finished = True
            return None
        if pending := self._machines_remain():
            return pending
        record = self.record()
        if record is None:
            await self.let_go()
            return None
        cloud = await self._cloud()
        if isinstance(cloud, Pending):
            return cloud
        record = self._record(cloud)
        cloudspace_id = self._known_cloudspace(record)
        if record.endpoint and cloudspace_id:
            await self._control_plane(cloud, record, cloudspace_id).delete()
        if pending := await self._cloudspaces(cloud).delete(record):
            return pending
        await self.let_go()
        return None

    def _known_cloudspace(self, record: Record) -> str:
        given = self.obj.spec.cloudspace.id if self.obj.spec.cloudspace else None
        return given or record.cloudspace_id

    def _machines_remain(self) -> Pending | None:
        meta = self.obj.metadata
        cluster = self.scope.cluster.metadata.name if self.scope.cluster else meta.name
        left = self.reconciler.caches.vco_machines.by_index(
            MACHINES_BY_CLUSTER, f"{meta.namespace}/{cluster}"
        )
        if not left:
            return None
        shown = ", ".join(sorted(m.metadata.name for m in left)[:5])
        message = f"waiting for {len(left)} VCOMachine(s) to be deleted: {shown}"
        return Pending(Reason.MACHINES_REMAIN, message, self.tools.waits.capacity)

    def status(
        self, conditions: tuple[Condition, ...], pending: Pending | None
    ) -> VCOClusterStatus:
        """Return the whole status."""
        before, site = self.obj.status, self.site
        del pending
        sites = before.sites
        if self.cloudspace:
            found = SiteStatus(
                name=site.name,
                cloudspace_id=self.cloudspace.cloudspace_id,
                external_ip=self.cloudspace.external_network_ip or None,
                private_network=self.cloudspace.private_network or None,
            )
            sites = (found,)
        return VCOClusterStatus(
            initialization=Initialization(provisioned=True) if self.provisioned else None,
            failure_domains=tuple(_domain(s) for s in self.obj.spec.all_sites),
            sites=sites,
            load_balancer=self.balancer,
            conditions=conditions,
        )


def _domain(site: Site) -> FailureDomain:
    attributes = {"location": site.location, "externalNetworkID": str(site.external_network_id)}
    return FailureDomain(name=site.name, control_plane=True, attributes=attributes)
