"""What ``kubectl get`` shows, printed by the real kubectl and apiserver."""

import pytest

from kubelocal import LocalCluster
from tests.envtest.api.apiserver import Apiserver, Json

pytestmark = pytest.mark.cluster

LABELS = {"cluster.x-k8s.io/cluster-name": "gpu-demo"}
SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
NOT_READY: Json = {
    "type": "Ready",
    "status": "False",
    "reason": "GPUTypeUnavailable",
    "message": 'no GPU type matches "NVIDIA L4"',
    **SINCE,
}


def table(installed: LocalCluster, api: Apiserver, kind: str, *flags: str) -> dict[str, str]:
    """Return the one row of a table, by column; columns are found by the place of their titles."""
    text = installed.kubectl("get", kind, "-n", api.namespace, *flags)
    head, row = text.splitlines()
    titles = [title for title in head.split("  ") if title]
    starts = [head.index(title.strip()) for title in titles]
    ends = [*starts[1:], None]
    return {
        title.strip(): row[start:end].strip()
        for title, start, end in zip(titles, starts, ends, strict=True)
    }


def test_machine(installed: LocalCluster, api: Apiserver) -> None:
    """Type, number, model, phase and reason at a glance; ids in the wide form."""
    # Of a group that nobody serves: the garbage collector cannot find out that there is no owner.
    owner = {"apiVersion": "unserved.example/v1", "kind": "Machine", "name": "o", "uid": "u"}
    spec: Json = {
        "imageID": 12,
        "gpu": {"type": "NVIDIA A100", "count": 2},
        "providerID": "vco://be-g8-4/default/m-1",
    }
    api.create("VCOMachine", "m", spec, labels=LABELS, ownerReferences=[owner])
    held = {"name": "capvco-m-gpu-0", "profileId": "p", "model": "NVIDIA A100", "attached": True}
    status: Json = {
        "phase": "Provisioning",
        "location": "be-g8-4",
        "vmID": 77,
        "gpus": [{"vgpuId": "vgpu-1", **held}],
        "addresses": [
            {"type": "Hostname", "address": "m"},
            {"type": "InternalIP", "address": "192.168.103.10"},
        ],
        "conditions": [NOT_READY],
    }
    assert api.patch_status("VCOMachine", "m", status).said == "accepted"
    narrow = {
        "NAME": "m",
        "CLUSTER": "gpu-demo",
        "GPU TYPE": "NVIDIA A100",
        "GPUS": "2",
        "MODEL": "NVIDIA A100",
        "PHASE": "Provisioning",
        "READY": "False",
        "REASON": "GPUTypeUnavailable",
    }
    wide = narrow | {
        "MESSAGE": 'no GPU type matches "NVIDIA L4"',
        "MACHINE": "o",
        "INTERNAL IP": "192.168.103.10",
        "LOCATION": "be-g8-4",
        "VM": "77",
        "VGPU": "vgpu-1",
        "PROVIDER ID": "vco://be-g8-4/default/m-1",
        "PAUSED": "",
    }
    shown = table(installed, api, "vcom")
    assert shown.pop("AGE")
    assert shown == narrow
    shown = table(installed, api, "vcomachine", "-o", "wide")
    assert shown.pop("AGE")
    assert shown == wide


def test_cluster(installed: LocalCluster, api: Apiserver) -> None:
    """Place, endpoint and reason at a glance."""
    spec: Json = {
        "identityRef": {"name": "s"},
        "location": "be-g8-4",
        "externalNetworkID": 5,
        "controlPlaneEndpoint": {"host": "203.0.113.7", "port": 6443},
    }
    api.create("VCOCluster", "gpu-demo", spec, labels=LABELS)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", **SINCE}
    api.patch_status("VCOCluster", "gpu-demo", {"conditions": [ready]})
    shown = table(installed, api, "vcoc")
    assert shown.pop("AGE")
    assert shown == {
        "NAME": "gpu-demo",
        "CLUSTER": "gpu-demo",
        "LOCATION": "be-g8-4",
        "ENDPOINT": "203.0.113.7",
        "READY": "True",
        "REASON": "Ready",
    }


def test_machine_template(installed: LocalCluster, api: Apiserver) -> None:
    """What a pool asks for."""
    spec = {"imageID": 12, "vcpus": 8, "gpu": {"type": "NVIDIA A100", "count": 1}}
    api.create("VCOMachineTemplate", "t", {"template": {"spec": spec}})
    shown = table(installed, api, "vcomt")
    assert shown.pop("AGE")
    assert shown == {
        "NAME": "t",
        "GPU TYPE": "NVIDIA A100",
        "GPUS": "1",
        "VCPUS": "8",
        "MEMORY": "4096",
    }


def test_kinds_are_in_the_category_of_cluster_api(installed: LocalCluster) -> None:
    """``kubectl get cluster-api`` shows ours too."""
    listed = installed.kubectl("api-resources", "--categories=cluster-api", "-o", "name").split()
    assert {name for name in listed if name.startswith("vco")} == {
        "vcoclusters.infrastructure.cluster.x-k8s.io",
        "vcoclustertemplates.infrastructure.cluster.x-k8s.io",
        "vcomachines.infrastructure.cluster.x-k8s.io",
        "vcomachinetemplates.infrastructure.cluster.x-k8s.io",
    }


def test_explain(installed: LocalCluster) -> None:
    """The documentation of a field reaches the terminal."""
    said = installed.kubectl("explain", "vcomachine.spec.gpu.driverVersion")
    assert "Driver branch to install at first boot" in " ".join(said.split())
