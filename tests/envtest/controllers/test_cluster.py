"""VCOCluster: cloudspace and endpoint, given, made, wrong, or somebody else's."""

import pytest

from tests.envtest.controllers.stage import DUMMY, Stage
from tests.envtest.controllers.workload import put_control_plane
from tests.support.scenario import CAPI, LOCATION, a_cluster, a_vco_cluster
from vcosim.control import Control

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def named(control: Control, kind: str, name: str) -> list[str]:
    """Return the ids of all objects of a kind in the cloud that have a name."""
    return [one["id"] for one in control.state().get(kind, []) if one["name"] == name]


def a_cloudspace(stage: Stage, name: str) -> str:
    """Make a cloudspace that no program knows of; return its id."""
    body = {
        "name": name,
        "location": LOCATION,
        "firewall": {"private": False, "external_network_id": 11},
    }
    path = f"/customers/{stage.simulator.customer_id}/cloudspaces"
    made = stage.simulator.control.hand.call("POST", path, body=body)
    return str(made.body["cloudspace_id"])


def test_what_cannot_be_had(stage: Stage) -> None:
    """Location, network and cloudspace: the message has what there is, and nothing is made."""
    stage.put_cluster("lost", location="be-atlantis-001")
    stage.put_cluster("cut-off", externalNetworkID=21)
    stage.put_cluster("homeless", cloudspace={"id": "bm93aGVyZTox"})
    said = stage.says("lost", "LocationUnknown", "vcoclusters")
    assert f"available: {LOCATION}, nl-rmd-dc01-001" in said
    said = stage.says("cut-off", "ExternalNetworkUnavailable", "vcoclusters")
    assert "available: 11 (public-be), 12 (management-be)" in said
    assert "bm93aGVyZTox" in stage.says("homeless", "CloudspaceUnavailable", "vcoclusters")
    clusters = ("lost", "cut-off", "homeless")
    for name in clusters:
        stage.delete("clusters", name)
    stage.until(
        "them to be gone", lambda: all(stage.gone("vcoclusters", name) for name in clusters)
    )


def test_a_cloudspace_of_the_users(stage: Stage) -> None:
    """It is used and never deleted; a name that is taken is not ours to use."""
    control = stage.simulator.control
    given = a_cloudspace(stage, "given")
    stage.put_cluster("tenant", cloudspace={"id": given})
    stage.put_cluster("namesake", cloudspace={"name": "given"})
    stage.until("the tenant", lambda: stage.cluster_ready("tenant"))
    said = stage.says("namesake", "CloudspaceUnavailable", "vcoclusters")
    assert f"({given}) and is not this cluster's" in said
    stage.put_machine("lodger", "tenant", gpu=DUMMY)
    stage.up("lodger")
    vm = stage.vm("lodger")
    assert vm
    assert vm.parent == given
    for name in ("tenant", "namesake"):
        stage.delete("clusters", name)
    stage.until(
        "both to be gone",
        lambda: all(stage.gone("clusters", name) for name in ("tenant", "namesake")),
    )
    assert named(control, "cloudspace", "given") == [given]
    assert named(control, "server-pool", f"capvco-{stage.namespace}-tenant") == []
    assert stage.holdings("lodger") == []


def test_an_endpoint_of_the_users(stage: Stage) -> None:
    """It is left as it is, and no balancer is made."""
    endpoint = {"host": "api.example.test", "port": 443}
    stage.put_cluster("external", controlPlaneEndpoint=endpoint)
    stage.until("the cluster", lambda: stage.cluster_ready("external"))
    found = stage.get("vcoclusters", "external") or {}
    assert found["spec"]["controlPlaneEndpoint"] == endpoint
    name = f"capvco-{stage.namespace}-external"
    control = stage.simulator.control
    assert len(named(control, "cloudspace", name)) == 1
    assert named(control, "server-pool", name) == named(control, "load-balancer", name) == []
    stage.delete("clusters", "external")
    stage.until("it to be gone", lambda: stage.gone("clusters", "external"))
    assert named(control, "cloudspace", name) == []


def test_a_cluster_with_machines_stays(stage: Stage) -> None:
    """A VCOCluster that is deleted alone waits for its machines and names them."""
    stage.put_cluster("full")
    stage.put_machine("tenant-1", "full", gpu=DUMMY)
    stage.up("tenant-1")
    stage.delete("vcoclusters", "full")
    assert "tenant-1" in stage.says("full", "MachinesRemain", "vcoclusters")
    assert len(stage.holdings("tenant-1")) == 1
    stage.down("tenant-1")
    stage.until("it to be gone", lambda: stage.gone("vcoclusters", "full"))
    assert named(stage.simulator.control, "cloudspace", f"capvco-{stage.namespace}-full") == []
    stage.delete("clusters", "full")
    stage.until("the Cluster to be gone", lambda: stage.gone("clusters", "full"))


def members(stage: Stage, cluster: str) -> list[str]:
    """Return the addresses behind a cluster's endpoint."""
    name = f"capvco-{stage.namespace}-{cluster}"
    pools = stage.simulator.control.state().get("server-pool", [])
    return [address for one in pools if one["name"] == name for _, address in one["hosts"]]


def test_control_plane_machines_behind_the_endpoint(stage: Stage) -> None:
    """They join it when they run and leave it before they go, also if the status was lost."""
    stage.put_cluster("led")
    for name in ("leader-1", "leader-2"):
        put_control_plane(stage, name, "led")
    stage.put_machine("worker-1", "led", gpu=DUMMY)
    stage.up("leader-1", "leader-2", "worker-1")
    addresses = {
        name: stage.vco_machine(name)["status"]["addresses"][0]["address"]
        for name in ("leader-1", "leader-2")
    }
    assert sorted(members(stage, "led")) == sorted(addresses.values())
    stage.down("leader-1")
    assert members(stage, "led") == [addresses["leader-2"]]

    def meanwhile() -> None:
        stage.wipe_status("leader-2")
        stage.delete("machines", "leader-2")
        stage.deleting("leader-2")

    stage.restart_manager(meanwhile)
    stage.vanished("leader-2")
    assert members(stage, "led") == []
    stage.delete("clusters", "led")
    stage.until("the cluster to be gone", lambda: stage.gone("clusters", "led"))
    assert stage.holdings("worker-1") == []


def test_a_cluster_that_others_manage(stage: Stage) -> None:
    """With the annotation managed-by, nothing is made and nothing said."""
    managed = a_vco_cluster("managed")
    managed["metadata"]["annotations"] = {f"{CAPI}/managed-by": "somebody"}
    stage.apply(managed, a_cluster("managed"))
    stage.put_cluster("ordinary")
    stage.until("its neighbour", lambda: stage.cluster_ready("ordinary"))
    assert "status" not in (stage.get("vcoclusters", "managed") or {})
    name = f"capvco-{stage.namespace}-managed"
    assert named(stage.simulator.control, "cloudspace", name) == []
