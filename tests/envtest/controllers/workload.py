"""The workload cluster of a stage: the management cluster plays it, and the test the kubelets."""

import json

from tests.envtest.controllers.stage import Stage
from tests.support.scenario import CAPI, Object, a_machine, a_vco_machine

_STAGE = "test.capvco.io/stage"
"""Label of the nodes of one stage."""


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
    """Do what the kubelets of all running VMs do: register a node that is ready. Idempotent."""
    for found in stage.items("vcomachines"):
        name = f"{stage.namespace}-{found['metadata']['name']}"
        running = found.get("status", {}).get("initialization", {}).get("provisioned")
        if running and name not in _nodes(stage):
            _register(stage, name, found["spec"]["providerID"])


def _register(stage: Stage, name: str, provider_id: str) -> None:
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_STAGE: stage.namespace}},
        "spec": {"providerID": provider_id},
    }
    stage.cluster.kubectl("create", "-f", "-", input=json.dumps(node))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    patch = json.dumps({"status": {"conditions": [ready]}})
    stage.cluster.kubectl(
        "patch", "node", name, "--subresource=status", "--type=merge", "-p", patch
    )


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
