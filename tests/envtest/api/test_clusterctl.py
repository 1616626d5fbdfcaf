"""The release under the real clusterctl and the real Cluster API managers and webhooks."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from msgspec import convert

from capvco.api.crds import crds
from capvco.api.policies import Manifest
from kubelocal import KubectlError, LocalCluster
from tests.envtest.api.apiserver import Apiserver, Json
from tests.envtest.api.clusterctl import SEED, clusterctl, eventually, gpu_demo

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def documents(text: str) -> list[Manifest]:
    return convert(list(yaml.safe_load_all(text)), list[Manifest])


def of_kind(text: str, kind: str) -> Manifest:
    return next(item for item in documents(text) if item["kind"] == kind)


def test_crds_are_installed_as_built(installed: LocalCluster) -> None:
    """Clusterctl substitutes variables in what it installs: no pattern or rule may suffer."""
    for crd in crds():
        name = str(convert(crd["metadata"], Json)["name"])
        live = json.loads(installed.kubectl("get", "crd", name, "-o", "json"))
        assert live["spec"]["versions"] == convert(crd["spec"], Json)["versions"]


def test_gpu_flavor_with_the_variables_of_the_guide(installed: LocalCluster) -> None:
    """The eight variables suffice, and each is in the result with its own type."""
    text = gpu_demo(installed, "default")
    workers = [item for item in documents(text) if item["kind"] == "VCOMachineTemplate"][-1]
    spec = convert(workers["spec"], dict[str, dict[str, Json]])["template"]["spec"]
    assert spec["imageID"] == 12
    assert spec["bootType"] == "bios"
    assert spec["gpu"] == {"type": "NVIDIA A100", "count": 1, "driverVersion": "550"}
    cluster = convert(of_kind(text, "VCOCluster")["spec"], Json)
    assert cluster == {
        "identityRef": {"name": "vco-credentials"},
        "location": "be-g8-4",
        "externalNetworkID": 5,
    }
    assert convert(of_kind(text, "MachineDeployment")["spec"], Json)["replicas"] == 1
    labels = convert(of_kind(text, "Cluster")["metadata"], Json)["labels"]
    assert labels == {"capvco.infrastructure.cluster.x-k8s.io/gpu": "nvidia"}


def test_gpu_flavor_without_driver_and_add_on(installed: LocalCluster) -> None:
    """As for stub profiles: the branch is empty, the add-on none."""
    text = gpu_demo(installed, "default", VCO_GPU_DRIVER_VERSION="", VCO_GPU_ADDON="none")
    assert 'driverVersion: ""' in text
    assert "capvco.infrastructure.cluster.x-k8s.io/gpu: none" in text


@pytest.mark.parametrize("flavor", ["", "gpu"])
def test_what_a_flavor_asks_for(installed: LocalCluster, flavor: str) -> None:
    """Clusterctl lists no variable as required beyond those of the guide."""
    listed = clusterctl(
        installed,
        {},
        *("generate", "cluster", "c", "--flavor", flavor, "--list-variables"),
    )
    required = listed.split("Required Variables:")[1].split("Optional Variables:")[0]
    names = set(required.replace("-", "").split())
    gpu = {"VCO_GPU_TYPE", "VCO_GPU_COUNT"} if flavor else set()
    clusterctls = {"KUBERNETES_VERSION"}
    assert names == {"VCO_LOCATION", "VCO_IMAGE_ID", "VCO_EXTNET_ID"} | gpu | clusterctls
    assert names <= SEED.keys()


def test_gpu_flavor_is_accepted_and_taken_up(installed: LocalCluster, api: Apiserver) -> None:
    """The webhooks of Cluster API take every object; its controllers own and resolve ours."""
    installed.apply(gpu_demo(installed, api.namespace))

    def is_owned(kind: str, name: str) -> bool:
        owners = api.get(kind, name).part("metadata.ownerReferences") or []
        return [owner["kind"] for owner in convert(owners, list[Json])] == ["Cluster"]

    eventually(partial(is_owned, "VCOCluster", "gpu-demo"), "the Cluster owns the VCOCluster")
    for pool in ("control-plane", "gpu"):
        owned = partial(is_owned, "VCOMachineTemplate", f"gpu-demo-{pool}")
        eventually(owned, f"the Cluster owns the template of {pool}")
    label = api.get("VCOCluster", "gpu-demo").part("metadata.labels")
    assert label == {"cluster.x-k8s.io/cluster-name": "gpu-demo"}


def test_provisioned_cluster_is_mirrored(installed: LocalCluster, api: Apiserver) -> None:
    """Endpoint, failure domains, progress and readiness reach the Cluster: the contract holds."""
    text = clusterctl(
        installed,
        SEED,
        *("generate", "cluster", "gpu-demo", "--target-namespace", api.namespace),
    )
    installed.apply(text)
    endpoint: Json = {"host": "203.0.113.7", "port": 6443}
    assert api.patch(
        "VCOCluster", "gpu-demo", {"spec": {"controlPlaneEndpoint": endpoint}}
    ).accepted
    domain: Json = {"name": "be-g8-4", "controlPlane": True, "attributes": {"location": "be-g8-4"}}
    ready: Json = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status: Json = {
        "initialization": {"provisioned": True},
        "failureDomains": [domain],
        "conditions": [ready],
    }
    assert api.patch_status("VCOCluster", "gpu-demo", status).said == "accepted"

    def cluster() -> Json:
        arguments = ("get", "cluster", "gpu-demo", "-n", api.namespace, "-o", "json")
        return convert(json.loads(installed.kubectl(*arguments)), Json)

    def mirrored() -> bool:
        live = convert(cluster().get("status", {}), Json)
        progress = convert(live.get("initialization", {}), Json)
        return progress.get("infrastructureProvisioned") is True

    eventually(mirrored, "the Cluster says that its infrastructure is provisioned")
    live = cluster()
    assert convert(live["spec"], Json)["controlPlaneEndpoint"] == endpoint
    seen = convert(live["status"], Json)
    assert seen["failureDomains"] == [domain]
    conditions = convert(seen["conditions"], list[Json])
    (infrastructure,) = [item for item in conditions if item["type"] == "InfrastructureReady"]
    assert (infrastructure["status"], infrastructure["reason"]) == ("True", "Ready")


CLASS = Path(__file__).with_name("cluster-class.yaml")


def test_cluster_class_rotates_templates(installed: LocalCluster, api: Apiserver) -> None:
    """The topology controller's dry runs pass: a class that points at a new template rolls."""
    namespace = ("-n", api.namespace)
    installed.kubectl("apply", "--server-side", "-f", "-", *namespace, input=CLASS.read_text())

    def gpu_types() -> list[str]:
        """Return the GPU type of the template that the pool points at, if there is a pool."""
        path = "jsonpath={.items[*].spec.template.spec.infrastructureRef.name}"
        names = installed.kubectl("get", "machinedeployments", *namespace, "-o", path).split()
        found = [api.get("VCOMachineTemplate", name) for name in names]
        return [str(template.part("spec.template.spec.gpu.type")) for template in found]

    eventually(lambda: gpu_types() == ["NVIDIA A100"], "the class made a pool")
    where = "/spec/workers/machineDeployments/0/infrastructure/templateRef/name"
    change = json.dumps([{"op": "replace", "path": where, "value": "gpu-2"}])
    installed.kubectl("patch", "clusterclass", "vco", *namespace, "--type=json", "-p", change)
    eventually(lambda: gpu_types() == ["NVIDIA L4"], "the pool points at a rotated template")


def test_user_cannot_edit_the_template_in_use(installed: LocalCluster, api: Apiserver) -> None:
    """The sentence reaches a person at the terminal."""
    installed.apply(gpu_demo(installed, api.namespace))
    edit = '{"spec":{"template":{"spec":{"imageID":99}}}}'
    with pytest.raises(KubectlError, match="make a new VCOMachineTemplate under another name"):
        installed.kubectl(
            *("patch", "vcomt", "gpu-demo-gpu", "-n", api.namespace, "--type=merge", "-p", edit)
        )
