"""Which change of which object makes which key worth a look; pure."""

from collections.abc import Iterable

import msgspec

from capvco.api.upstream import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, Cluster, Machine
from capvco.api.v1beta1 import GROUP
from capvco.api.v1beta1.cluster import VCOCluster
from capvco.api.v1beta1.machine import VCOMachine
from capvco.runtime.cache import Change
from capvco.runtime.kinds import Key, key_of


def by_cluster(vco_machine: VCOMachine) -> Iterable[str]:
    """Index of VCOMachines: ``<namespace>/<cluster>``."""
    meta = vco_machine.metadata
    if name := meta.labels.get(CLUSTER_NAME_LABEL):
        yield f"{meta.namespace}/{name}"


def node_clusters(machines: Iterable[VCOMachine]) -> dict[Key, bool]:
    """Return the clusters that have nodes, and whether those should offer GPUs."""
    found: dict[Key, bool] = {}
    for machine in machines:
        name = machine.metadata.labels.get(CLUSTER_NAME_LABEL, "")
        if name and machine.status.initialization and not _deleted(machine):
            key = Key(machine.metadata.namespace, name)
            found[key] = found.get(key, False) or machine.spec.gpu is not None
    return found


def _deleted(machine: VCOMachine) -> bool:
    return machine.metadata.deletion_timestamp is not None


def of_vco_machine(change: Change[VCOMachine]) -> Key | None:
    """Return the key of a VCOMachine unless all that changed is what we wrote ourselves."""
    old, new = change.old, change.new
    if new is None:
        return None
    if old is not None and _intent(old) == _intent(new):
        return None
    return key_of(new)


def _intent(vco_machine: VCOMachine) -> tuple[object, ...]:
    meta = vco_machine.metadata
    spec = msgspec.structs.replace(vco_machine.spec, provider_id=None)
    paused = PAUSED_ANNOTATION in meta.annotations
    return (meta.uid, spec, meta.deletion_timestamp, paused, meta.owner_references)


def of_vco_cluster(change: Change[VCOCluster]) -> Key | None:
    """Return the key of a VCOCluster unless only its status or our record changed."""
    old, new = change.old, change.new
    if new is None:
        return None
    if old is not None and _cluster_intent(old) == _cluster_intent(new):
        return None
    return key_of(new)


def _cluster_intent(vco_cluster: VCOCluster) -> tuple[object, ...]:
    meta = vco_cluster.metadata
    spec = msgspec.structs.replace(vco_cluster.spec, control_plane_endpoint=None)
    paused = PAUSED_ANNOTATION in meta.annotations
    return (meta.uid, spec, meta.deletion_timestamp, paused, meta.owner_references)


def machine_to_vco_machine(change: Change[Machine]) -> Key | None:
    """Return the VCOMachine of a Machine whose wishes changed; its status does not matter."""
    machine = change.new or change.old
    if machine is None or machine.spec.infrastructure_ref is None:
        return None
    reference = machine.spec.infrastructure_ref
    if reference.kind != "VCOMachine" or reference.api_group != GROUP:
        return None
    if change.old and change.new and _wishes(change.old) == _wishes(change.new):
        return None
    return Key(machine.metadata.namespace, reference.name)


def _wishes(machine: Machine) -> object:
    # The provider id comes from us.
    return msgspec.structs.replace(machine.spec, provider_id="")


def cluster_changed(change: Change[Cluster]) -> Key | None:
    """Return the key of a Cluster whose pause or progress changed: all in it is looked at."""
    old, new = change.old, change.new
    cluster = new or old
    if cluster is None or (old and new and (old.spec, old.status) == (new.spec, new.status)):
        return None
    return key_of(cluster)


def machines_left(change: Change[VCOMachine]) -> Key | None:
    """Return the cluster of a VCOMachine that is gone: its VCOCluster may wait for that."""
    if change.new is not None or change.old is None:
        return None
    meta = change.old.metadata
    name = meta.labels.get(CLUSTER_NAME_LABEL)
    return Key(meta.namespace, name) if name else None
