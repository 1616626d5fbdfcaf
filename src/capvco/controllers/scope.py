"""Everything that one reconcile reads, loaded once from the caches."""

from dataclasses import dataclass

from capvco.api.meta import has_annotation
from capvco.api.upstream import (
    CLUSTER_GROUP,
    CLUSTER_NAME_LABEL,
    PAUSED_ANNOTATION,
    Cluster,
    Machine,
)
from capvco.api.v1beta1.cluster import VCOCluster
from capvco.api.v1beta1.machine import VCOMachine
from capvco.api.v1beta1.templates import VCOMachineTemplate
from capvco.runtime.cache import Cache
from capvco.runtime.kinds import Key


@dataclass(frozen=True)
class Caches:
    """The caches of the manager."""

    clusters: Cache[Cluster]
    machines: Cache[Machine]
    vco_clusters: Cache[VCOCluster]
    vco_machines: Cache[VCOMachine]
    templates: Cache[VCOMachineTemplate]


@dataclass(frozen=True)
class MachineScope:
    """A VCOMachine and what it belongs to; None where that is missing."""

    vco_machine: VCOMachine
    machine: Machine | None
    cluster: Cluster | None
    vco_cluster: VCOCluster | None

    @property
    def paused(self) -> str:
        """Say what pauses the machine, empty if nothing does."""
        return _paused(self.cluster, self.vco_machine.metadata.annotations)


@dataclass(frozen=True)
class ClusterScope:
    """A VCOCluster and the Cluster that owns it."""

    vco_cluster: VCOCluster
    cluster: Cluster | None

    @property
    def paused(self) -> str:
        """Say what pauses the cluster, empty if nothing does."""
        return _paused(self.cluster, self.vco_cluster.metadata.annotations)


def _paused(cluster: Cluster | None, annotations: dict[str, str]) -> str:
    if cluster is not None and cluster.spec.paused:
        return f"the Cluster {cluster.metadata.name} has spec.paused"
    if has_annotation(annotations, PAUSED_ANNOTATION):
        return f"the object has the annotation {PAUSED_ANNOTATION}"
    return ""


def machine_scope(caches: Caches, vco_machine: VCOMachine) -> MachineScope:
    """Load what a VCOMachine belongs to."""
    meta = vco_machine.metadata
    owner = meta.owner(CLUSTER_GROUP, "Machine")
    machine = caches.machines.get(Key(meta.namespace, owner.name)) if owner else None
    name = machine.spec.cluster_name if machine else meta.labels.get(CLUSTER_NAME_LABEL, "")
    cluster = caches.clusters.get(Key(meta.namespace, name)) if name else None
    return MachineScope(vco_machine, machine, cluster, _vco_cluster(caches, cluster))


def _vco_cluster(caches: Caches, cluster: Cluster | None) -> VCOCluster | None:
    if cluster is None or cluster.spec.infrastructure_ref is None:
        return None
    key = Key(cluster.metadata.namespace, cluster.spec.infrastructure_ref.name)
    return caches.vco_clusters.get(key)


def cluster_scope(caches: Caches, vco_cluster: VCOCluster) -> ClusterScope:
    """Load what a VCOCluster belongs to."""
    meta = vco_cluster.metadata
    owner = meta.owner(CLUSTER_GROUP, "Cluster")
    cluster = caches.clusters.get(Key(meta.namespace, owner.name)) if owner else None
    return ClusterScope(vco_cluster, cluster)
