"""Pools under the real MachineDeployment and MachineHealthCheck controllers, with nodes."""

from collections.abc import Collection, Iterator
from functools import partial

import pytest
import yaml

from kubelocal import LocalCluster
from tests.envtest.controllers.stage import A100, Stage
from tests.envtest.controllers.workload import (
    forget,
    give_kubeconfig,
    join,
    joined,
    put_control_plane,
)
from tests.support.scenario import CAPI, IMAGE, INFRA, LOCATION, USER_DATA, Object, condition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
L4 = {"type": "NVIDIA L4", "count": 1}


@pytest.fixture(scope="module")
def stage(
    management_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Give a cluster whose control plane is initialized and whose machines get nodes."""
    give = partial(give_kubeconfig, cluster="demo")
    folder = tmp_path_factory.mktemp("stage")
    with Stage.opened(management_cluster, folder, before=give) as made:
        data = {"value": USER_DATA, "format": "cloud-config"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pool-bootstrap"}}
        made.apply(secret | {"stringData": data})
        put_control_plane(made, "leader", "demo")
        made.until("the control plane", lambda: joined(made, "leader"))
        made.until("Cluster API to know it", lambda: initialized(made))
        yield made
        forget(made)


def initialized(stage: Stage) -> bool:
    """Say whether the control plane is initialized."""
    found = condition(stage.get("clusters", "demo") or {}, "ControlPlaneInitialized")
    return found.get("status") == "True"


def template(name: str, gpu: Object | None) -> Object:
    """Return a machine template."""
    spec = {"imageID": IMAGE, "vcpus": 4, "memoryMiB": 8192} | ({"gpu": gpu} if gpu else {})
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOMachineTemplate",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}},
    }


def pool(name: str, replicas: int, template_name: str) -> Object:
    """Return a pool as the gpu flavor has it: no surge, since every card may be taken."""
    machine = {
        "clusterName": "demo",
        "version": "v1.36.3",
        "bootstrap": {"dataSecretName": "pool-bootstrap"},
        "infrastructureRef": {
            "apiGroup": INFRA,
            "kind": "VCOMachineTemplate",
            "name": template_name,
        },
        "deletion": {"nodeDrainTimeoutSeconds": 1},
    }
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": name},
        "spec": {
            "clusterName": "demo",
            "replicas": replicas,
            "selector": {},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": machine},
        },
    }


def health_check(name: str, seconds: int) -> Object:
    """Return a check that replaces machines whose infrastructure is not ready for so long."""
    unready = {"type": "InfrastructureReady", "status": "False", "timeoutSeconds": seconds}
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "MachineHealthCheck",
        "metadata": {"name": name},
        "spec": {
            "clusterName": "demo",
            "selector": {"matchLabels": {"pool": name}},
            "checks": {"nodeStartupTimeoutSeconds": 1800, "unhealthyMachineConditions": [unready]},
        },
    }


def machines(stage: Stage, name: str) -> dict[str, Object]:
    """Return the VCOMachines of a pool by name."""
    found = stage.items("vcomachines")
    label = "cluster.x-k8s.io/deployment-name"
    return {o["metadata"]["name"]: o for o in found if o["metadata"]["labels"].get(label) == name}


def cards_of(stage: Stage, name: str) -> dict[str, str]:
    """Return the reservation of each machine of a pool."""
    return {
        machine: gpu["vgpuId"]
        for machine, found in machines(stage, name).items()
        for gpu in found.get("status", {}).get("gpus", [])
    }


def settle(stage: Stage, name: str, replicas: int, seconds: float = 60.0) -> None:
    """Wait until so many machines of a pool run and are known as available, and no others are."""

    def settled() -> bool:
        join(stage)
        status = (stage.get("machinedeployments", name) or {}).get("status", {})
        counts = [status.get(f"{k}eplicas") for k in ("r", "upToDateR", "availableR")]
        running = all(map(stage.running, machines(stage, name)))
        return counts == [replicas] * 3 and running and len(machines(stage, name)) == replicas

    stage.until(f"{replicas} machines of {name}", settled, seconds)


def remove(stage: Stage, name: str) -> None:
    """Delete a pool and wait until its machines are gone."""
    stage.delete("machinedeployments", name)
    stage.until(f"the pool {name} to be gone", lambda: not machines(stage, name))


def test_up_and_down(stage: Stage) -> None:
    """Scaling down releases the cards of the machines that go, and no other."""
    stage.apply(template("up", A100), pool("up", 2, "up"))
    settle(stage, "up", 2)
    stage.patch("machinedeployments", "up", {"spec": {"replicas": 3}})
    settle(stage, "up", 3)
    before = cards_of(stage, "up")
    assert len(set(before.values())) == 3
    stage.patch("machinedeployments", "up", {"spec": {"replicas": 1}})
    settle(stage, "up", 1)
    ((left, card),) = cards_of(stage, "up").items()
    assert before[left] == card
    assert [row.vgpu_id for row in stage.holdings("up")] == [card]
    remove(stage, "up")
    assert stage.holdings("up") == []
    assert len(stage.bought("up")) == 3


def test_a_rollout_when_every_card_is_taken(stage: Stage) -> None:
    """Another driver branch, then another type: each new machine waits for what an old one had."""
    for card in stage.cards("A100")[2:]:
        stage.simulator.control.cards.set(LOCATION, card, 0)
    branch = A100 | {"driverVersion": "570"}
    templates = {"roll-1": A100, "roll-2": branch, "roll-3": L4}
    stage.apply(*(template(name, gpu) for name, gpu in templates.items()))
    stage.apply(pool("roll", 2, "roll-1"))
    settle(stage, "roll", 2)
    for name, model in (("roll-2", "NVIDIA A100"), ("roll-3", "NVIDIA L4")):
        old = set(machines(stage, "roll"))
        reference = {"apiGroup": INFRA, "kind": "VCOMachineTemplate", "name": name}
        body = {"template": {"spec": {"infrastructureRef": reference}}}
        stage.patch("machinedeployments", "roll", {"spec": body})
        new = partial(rolled, stage, "roll", model, besides=old)
        stage.until(f"the pool to be of {name}", new)
        settle(stage, "roll", 2)
    assert len(stage.holdings("roll")) == 2
    remove(stage, "roll")
    assert stage.holdings("roll") == []
    assert len(stage.bought("roll")) == 6
    for card in stage.cards("A100"):
        stage.simulator.control.cards.set(LOCATION, card, 1)


DATA = """\
#cloud-config
write_files:
  - path: /run/kubeadm/kubeadm-join-config.yaml
    content: |
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: JoinConfiguration
runcmd:
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml
"""


def told(stage: Stage, machine: str) -> dict[str, str]:
    """Return the files that a machine's VM was made with, by path."""
    vm = stage.vm(machine)
    assert vm, f"no VM of {machine}"
    files = stage.simulator.control.userdata(LOCATION, vm.id).userdata["write_files"]
    return {file["path"]: file.get("content", "") for file in files}


def test_two_pools_on_two_branches(stage: Stage) -> None:
    """Each pool's machines get the branch, the model and the card of their own template."""
    data = {"value": DATA, "format": "cloud-config"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "branches-bootstrap"}}
    stage.apply(secret | {"stringData": data})
    pools = {"older": (A100, "535", "nvidia-a100"), "newer": (L4, "570", "nvidia-l4")}
    for name, (gpu, branch, _) in pools.items():
        made = pool(name, 2, name)
        made["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"] = "branches-bootstrap"
        stage.apply(template(name, gpu | {"driverVersion": branch}), made)
    for name, (_, branch, model) in pools.items():
        settle(stage, name, 2)
        for machine in machines(stage, name):
            files = told(stage, machine)
            assert f"CAPVCO_GPU_DRIVER={branch}\n" in files["/etc/capvco/gpu.env"]
            (joined_as,) = yaml.safe_load_all(files["/run/kubeadm/kubeadm-join-config.yaml"])
            arguments = joined_as["nodeRegistration"]["kubeletExtraArgs"]
            (labels,) = [one["value"] for one in arguments if one["name"] == "node-labels"]
            assert f"capvco.infrastructure.cluster.x-k8s.io/gpu-model={model}," in f"{labels},"
            assert f"topology.kubernetes.io/zone={LOCATION}," in f"{labels},"
    for name in pools:
        remove(stage, name)
    assert stage.holdings(*pools) == []


def rolled(stage: Stage, name: str, model: str, besides: Collection[str] = ()) -> bool:
    """Say whether all machines of a pool have a model of GPU, and none is an old one."""
    join(stage)
    found = machines(stage, name)
    gpus = [one.get("status", {}).get("gpus", []) for one in found.values()]
    right = all(held and held[0]["model"] == model for held in gpus)
    return bool(found) and right and not set(besides) & set(found)


def test_a_health_check_replaces_a_machine_whose_vm_vanished(stage: Stage) -> None:
    """The condition is enough for it; the new machine is another, and the old card is free."""
    stage.apply(template("mended", A100), pool("mended", 1, "mended"), health_check("mended", 1))
    settle(stage, "mended", 1)
    ((old, card),) = cards_of(stage, "mended").items()
    vm = stage.vm(old)
    assert vm
    stage.simulator.control.hand.delete_vm(vm, permanently=True, detach_gpu=True)
    stage.until("the old one to be gone", lambda: stage.gone("vcomachines", old))
    settle(stage, "mended", 1)
    assert stage.vms_ever(old) == 1
    assert card not in {row.vgpu_id for row in stage.holdings()}
    assert len(stage.holdings("mended")) == 1
    remove(stage, "mended")
    stage.delete("machinehealthchecks", "mended")


def test_a_health_check_leaves_alone_what_cannot_be_had(stage: Stage) -> None:
    """With the long timeout of the guide a machine that waits for its type is not replaced."""
    check = health_check("patient", 1800)
    stage.apply(
        template("patient", {"type": "H100", "count": 1}), pool("patient", 1, "patient"), check
    )
    stage.until("the machine", lambda: machines(stage, "patient"))
    (name,) = machines(stage, "patient")
    stage.says(name, "GPUTypeUnavailable")

    def checked() -> bool:
        found = stage.get("machinehealthchecks", "patient") or {}
        return bool(found.get("status", {}).get("expectedMachines"))

    stage.until("the health check to see it", checked)
    before = stage.metric("controller_runtime_reconcile_total", controller="vcomachine")
    stage.until(
        "some more looks",
        lambda: (
            stage.metric("controller_runtime_reconcile_total", controller="vcomachine")
            >= before + 6
        ),
    )
    assert set(machines(stage, "patient")) == {name}
    assert stage.bought(name) == []
    remove(stage, "patient")
    stage.delete("machinehealthchecks", "patient")


def test_a_pool_can_be_scaled_from_zero(stage: Stage) -> None:
    """What a node will offer is on the template, before there is any machine."""
    stage.apply(template("empty", A100 | {"count": 2}), template("plain", None))

    def status(name: str) -> Object:
        found: Object = (stage.get("vcomachinetemplates", name) or {}).get("status", {})
        return found

    stage.until("both templates", lambda: all(map(status, ("empty", "plain"))))
    assert status("empty") == {
        "capacity": {
            "cpu": "4",
            "memory": "8192Mi",
            "ephemeral-storage": "50Gi",
            "nvidia.com/gpu": "2",
        },
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
    }
    assert "nvidia.com/gpu" not in status("plain")["capacity"]
