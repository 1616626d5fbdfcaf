"""The workload cluster of a stage: the management cluster plays it, and the test the kubelets."""

import json
import time
from datetime import UTC, datetime

from kubelocal import KubectlError
from tests.envtest.controllers.stage import Stage
from tests.support.scenario import CAPI, Object, a_machine, a_vco_machine

_STAGE = "test.capvco.io/stage"
"""Label of the nodes of one stage."""
_BEAT = 10.0
"""Seconds between two reports of a node; Kubernetes doubts it after 40 without any."""


def give_kubeconfig(stage: Stage, cluster: str) -> None:
    """Tell Cluster API how the workload cluster is reached; do it before the Cluster exists."""
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": f"{CAPI}/secret",
            "metadata": {
                "name": f"{cluster}-kubeconfig",
                "labels": {f"{CAPI}/cluster-name": cluster},
            },
            "stringData": {"value": stage.cluster.kubeconfig.read_text()},
        }
    )


def put_control_plane(stage: Stage, name: str, cluster: str) -> None:
    """Apply a control-plane machine."""
    machine = a_machine(name, cluster)
    machine["metadata"]["labels"][f"{CAPI}/control-plane"] = ""
    stage.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-bootstrap"},
            "stringData": {"value": "#cloud-config\nruncmd: [kubeadm init]\n"},
        },
        a_vco_machine(name, cluster),
        machine,
    )


def join(stage: Stage) -> None:
    """Do what the kubelets of all running VMs do: register a ready node, and say so again.

    Idempotent; to be called often.
    """
    nodes = _nodes(stage)
    for found in stage.items("vcomachines"):
        name = f"{stage.namespace}-{found['metadata']['name']}"
        running = found.get("status", {}).get("initialization", {}).get("provisioned")
        if running and name not in nodes:
            _register(stage, name, found["spec"]["providerID"])
    if time.monotonic() - stage.last_beat > _BEAT:
        stage.last_beat = time.monotonic()
        for name in nodes:
            _beat(stage, name)


def _register(stage: Stage, name: str, provider_id: str) -> None:
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_STAGE: stage.namespace}},
        "spec": {"providerID": provider_id},
    }
    stage.cluster.kubectl("create", "-f", "-", input=json.dumps(node))
    _beat(stage, name)


def _beat(stage: Stage, name: str) -> None:
    """Report that a node is well, as of now."""
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    told = {"Ready": "True"} | dict.fromkeys(pressures, "False")
    at = {"lastHeartbeatTime": datetime.now(UTC).isoformat(timespec="seconds")}
    conditions = [{"type": type_, "status": status} | at for type_, status in told.items()]
    patch = json.dumps({"status": {"conditions": conditions}})
    flags = ("--subresource=status", "--type=merge", "-p", patch)
    try:
        stage.cluster.kubectl("patch", "node", name, *flags)
    except KubectlError as error:
        if "NotFound" not in str(error):  # Cluster API deletes the nodes of machines that go
            raise


def _nodes(stage: Stage) -> set[str]:
    listed = stage.cluster.read(f"/api/v1/nodes?labelSelector={_STAGE}={stage.namespace}")
    return {node["metadata"]["name"] for node in listed["items"]}


def forget(stage: Stage) -> None:
    """Take away the nodes of the stage."""
    stage.cluster.kubectl("delete", "nodes", "-l", f"{_STAGE}={stage.namespace}", "--wait=false")


def joined(stage: Stage, *names: str) -> bool:
    """Let nodes register; say whether Cluster API knows the nodes of these Machines."""
    join(stage)
    machines = (stage.get("machines", name) or {} for name in names)
    return all("nodeRef" in machine.get("status", {}) for machine in machines)
