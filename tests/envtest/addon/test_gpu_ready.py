"""GPUReady follows the nodes of a real second API server, and never holds anything up."""

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from capvco.api.v1beta1 import GPU_MODEL_LABEL
from tests.envtest.addon.workload import Workload, provisioned, put_cluster, reach
from tests.support.scenario import Object, Scenario, condition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
L4 = {"type": "NVIDIA L4", "count": 2}


@pytest.fixture
def silent() -> Iterator[str]:
    """Run a server that takes connections and never says a word, as behind a broken firewall."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"https://127.0.0.1:{server.getsockname()[1]}"


def up(scenario: Scenario, workload: Workload, addon: str = "nvidia") -> str:
    """Bring up a machine with two GPUs; return its provider id."""
    put_cluster(scenario, "demo", addon, workload.cluster)
    scenario.put_machine("worker", gpu=L4)
    scenario.until("the machine", lambda: scenario.running("worker"))
    return str(scenario.vco_machine("worker")["spec"]["providerID"])


def says(scenario: Scenario, status: str, reason: str) -> str:
    """Wait until GPUReady is so; return its message."""

    def look() -> tuple[str | None, str | None]:
        found = condition(scenario.vco_machine("worker"), "GPUReady")
        return found.get("status"), found.get("reason")

    scenario.until(f"GPUReady {status} {reason}", lambda: look() == (status, reason))
    return str(condition(scenario.vco_machine("worker"), "GPUReady")["message"])


def test_it_compares_the_node_with_the_machine(managed: Scenario, workload: Workload) -> None:
    """No node, none, too few, all, none again: each is said with numbers, and Ready stays true."""
    provider_id = up(managed, workload)
    assert provider_id in says(managed, "Unknown", "NodeNotJoined")
    workload.join("other", "vco://elsewhere/1", gpus="2")
    workload.join("node-1", provider_id, gpus="0")
    assert "node-1 offers 0 nvidia.com/gpu" in says(managed, "False", "GPUNotAllocatable")
    workload.offer("node-1", "1")
    managed.until("one", lambda: "offers 1" in says(managed, "False", "GPUNotAllocatable"))
    workload.offer("node-1", "2")
    says(managed, "True", "Ready")
    workload.offer("node-1", "0")
    says(managed, "False", "GPUNotAllocatable")
    assert managed.running("worker")
    assert condition(managed.vco_machine("worker"), "Ready")["status"] == "True"


def test_a_stopped_api_server(managed: Scenario, workload: Workload) -> None:
    """Not known is not false; it is known again afterwards, and deletion does not wait for it.

    Labels are put back as well, as soon as that is possible.
    """
    workload.join("node-1", up(managed, workload), gpus="2")
    says(managed, "True", "Ready")
    workload.cluster.stop_apiserver()
    try:
        told = says(managed, "Unknown", "WorkloadClusterUnreachable")
        assert f"the nodes of {managed.namespace}/demo cannot be read" in told
        assert managed.running("worker")
    finally:
        workload.cluster.start_apiserver()
    says(managed, "True", "Ready")
    workload.cluster.kubectl("label", "node", "node-1", f"{GPU_MODEL_LABEL}-")
    managed.until("its labels", lambda: workload.labels("node-1").get(GPU_MODEL_LABEL))
    workload.cluster.stop_apiserver()
    try:
        says(managed, "Unknown", "WorkloadClusterUnreachable")
        managed.delete("machines", "worker")
        managed.until("the deletion", lambda: managed.gone("vcomachines", "worker"), seconds=20)
    finally:
        workload.cluster.start_apiserver()
    assert managed.held == 0
    assert managed.vm_names() == []


def test_a_silent_api_server(managed: Scenario, workload: Workload, silent: str) -> None:
    """A connection that carries nothing times out in the background; machines come and go."""
    workload.join("node-1", up(managed, workload), gpus="2")
    says(managed, "True", "Ready")
    config = workload.cluster.kubeconfig.read_text()
    reach(managed, "demo", config.replace(workload.cluster.url, silent))
    assert "no answer within 10 s" in says(managed, "Unknown", "WorkloadClusterUnreachable")
    managed.put_machine("second", gpu={"type": "NVIDIA A100", "count": 1})
    managed.until("another machine", lambda: managed.running("second"), seconds=20)
    for name in ("worker", "second"):
        managed.delete("machines", name)
    managed.until("the deletions", lambda: managed.items("vcomachines") == [], seconds=20)
    assert managed.held == 0


def a_kubeconfig(user: Object, **cluster: str) -> str:
    """Return one that leads nowhere."""
    where = {"server": "https://127.0.0.1:1"} | cluster
    made = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": where}],
        "users": [{"name": "u", "user": user}],
    }
    return yaml.safe_dump(made)


def test_kubeconfigs_that_are_none(managed: Scenario, workload: Workload, tmp_path: Path) -> None:
    """Each is reported on the machines of that cluster; the manager neither dies nor obeys."""
    workload.join("node-1", up(managed, workload), gpus="2")
    says(managed, "True", "Ready")
    witness = tmp_path / "witness"
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch",
        "args": [str(witness)],
    }
    for text, told in (
        ("no kubeconfig", "not a usable kubeconfig: AttributeError"),
        ("clusters: 5", "not a usable kubeconfig"),
        (a_kubeconfig({"token": "t"}, **{"certificate-authority-data": "!"}), "cannot connect to"),
        (a_kubeconfig({"tokenFile": __file__}), "has tokenFile: only one that holds"),
        (a_kubeconfig({"exec": program}), "has exec: only one that holds"),
        (a_kubeconfig({"token": "t"}), "no answer from 127.0.0.1:1"),
    ):
        reach(managed, "demo", text)
        managed.until(told, partial(unreachable, managed, told))
    assert not witness.exists()
    reach(managed, "demo", workload.cluster.kubeconfig.read_text())
    says(managed, "True", "Ready")


def unreachable(scenario: Scenario, told: str) -> bool:
    """Say whether the nodes cannot be read, for this reason."""
    found = condition(scenario.vco_machine("worker"), "GPUReady")
    return found["reason"] == "WorkloadClusterUnreachable" and told in found["message"]


def test_without_the_add_on_nobody_asks(managed: Scenario, workload: Workload) -> None:
    """A cluster that says none has no GPUReady, whatever its nodes offer."""
    workload.join("node-1", up(managed, workload), gpus="0")
    says(managed, "False", "GPUNotAllocatable")
    managed.kubectl(
        *("label", "clusters.cluster.x-k8s.io", "demo", "--overwrite"),
        "capvco.infrastructure.cluster.x-k8s.io/gpu=none",
    )
    managed.until(
        "the condition gone", lambda: not condition(managed.vco_machine("worker"), "GPUReady")
    )
    assert provisioned(managed, "demo")
    assert managed.running("worker")
