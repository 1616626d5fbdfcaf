"""What must be there before a machine may be worked on; pure.

"Not yet" is an answer, not an error.
"""

from datetime import datetime

from capvco.api.conditions import Reason
from capvco.api.v1beta1.cluster import Site, VCOCluster
from capvco.controllers.scope import MachineScope
from capvco.services.outcome import Pending, Terminal

_YOUTH = 10.0
WAIT = 300.0
"""Seconds until a gate is looked at again by itself; a change of what it waits for comes sooner."""


def newborn(scope: MachineScope, now: float) -> bool:
    """Say whether a machine without an owner is so young that one is surely on its way.

    Cluster API rewrites the field managers of what it has just made; a write of ours in between
    would only make it try again.
    """
    created = scope.vco_machine.metadata.creation_timestamp
    if scope.machine is not None or created is None:
        return False
    return now - datetime.fromisoformat(created).timestamp() < _YOUTH


def owner(scope: MachineScope) -> Pending | None:
    """Nothing is bought for a machine that nobody owns."""
    name = scope.vco_machine.metadata.name
    if scope.machine is None:
        message = f"no Machine owns {name} yet"
        return Pending(Reason.WAITING_FOR_OWNER, message, WAIT)
    if scope.cluster is None:
        message = f"the Cluster {scope.machine.spec.cluster_name} of the machine does not exist"
        return Pending(Reason.WAITING_FOR_OWNER, message, WAIT)
    return None


def infrastructure(scope: MachineScope) -> Pending | None:
    """Wait for the cluster's cloudspace and endpoint."""
    if scope.vco_cluster is None:
        message = "the VCOCluster of the cluster does not exist yet"
    elif (
        scope.cluster is None or not scope.cluster.status.initialization.infrastructure_provisioned
    ):
        message = f"the VCOCluster {scope.vco_cluster.metadata.name} is not provisioned yet"
    else:
        return None
    return Pending(Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE, message, WAIT)


def bootstrap(scope: MachineScope) -> Pending | None:
    """Wait for the bootstrap data; for a worker that begins with the control plane."""
    machine, cluster = scope.machine, scope.cluster
    if machine is None or cluster is None or machine.spec.bootstrap.data_secret_name:
        return None
    initialized = cluster.status.initialization.control_plane_initialized
    if not machine.is_control_plane and not initialized:
        message = "waiting for the control plane to be initialized, then for bootstrap data"
        return Pending(Reason.WAITING_FOR_CONTROL_PLANE, message, WAIT)
    message = f"the Machine {machine.metadata.name} has no bootstrap data secret yet"
    return Pending(Reason.WAITING_FOR_BOOTSTRAP_DATA, message, WAIT)


def site(vco_cluster: VCOCluster, failure_domain: str) -> Site:
    """Return the site that a machine belongs to. Raises Terminal for one that is not there."""
    sites = vco_cluster.spec.all_sites
    if not failure_domain:
        return sites[0]
    for candidate in sites:
        if candidate.name == failure_domain:
            return candidate
    known = ", ".join(candidate.name for candidate in sites)
    raise Terminal(
        Reason.FAILURE_DOMAIN_UNKNOWN,
        f'the Machine asks for the failure domain "{failure_domain}", which the VCOCluster'
        f" {vco_cluster.metadata.name} does not have; available: {known}",
    )


def cloudspace_of(vco_cluster: VCOCluster, wanted: Site) -> str:
    """Return the id of the cloudspace at a site, empty while there is none."""
    found = (s.cloudspace_id for s in vco_cluster.status.sites if s.name == wanted.name)
    return next((cloudspace for cloudspace in found if cloudspace), "")


def private_network_of(vco_cluster: VCOCluster, cloudspace_id: str) -> str:
    """Return the private network of a cloudspace, empty if it is not known."""
    sites = vco_cluster.status.sites
    found = (s.private_network for s in sites if s.cloudspace_id == cloudspace_id)
    return next((network for network in found if network), "")
