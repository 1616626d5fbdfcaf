"""The GPU add-on: what is carried into the workload clusters, and into which."""

from typing import Any

import pytest
import yaml

from capvco.api.v1beta1 import GPU_ADDON_LABEL, GPU_MODEL_LABEL
from capvco.release.build import FLAVORS, GPU_ADDON, assets

# A manifest as YAML has it.
Object = dict[str, Any]
TEXT = assets("v0.1.0")[GPU_ADDON]
GPU_FLAVOR = "cluster-template-gpu.yaml"


def documents() -> tuple[Object, Object]:
    """Return the ConfigMap and the set that refers to it."""
    carrier, chosen = yaml.safe_load_all(TEXT)
    return carrier, chosen


def carried() -> list[Object]:
    """Return what the ConfigMap carries, in the order in which it is applied."""
    carrier, _ = documents()
    return [yaml.safe_load(text) for _, text in sorted(carrier["data"].items())]


def plugin() -> Object:
    """Return the pod of the device plugin."""
    _, daemon_set = carried()
    pod: Object = daemon_set["spec"]["template"]["spec"]
    return pod


def test_the_gpu_flavor_ends_with_it_and_the_other_has_none() -> None:
    """The asset for clusters that are there is the very text of the flavor."""
    texts = assets("v0.1.0")
    assert texts[GPU_FLAVOR].endswith(TEXT)
    assert [name for name in FLAVORS if "ClusterResourceSet" in texts[name]] == [GPU_FLAVOR]


def test_no_dollar() -> None:
    """Clusterctl would take what follows one for a variable; the asset is applied as it is."""
    assert "$" not in TEXT


def test_the_set_selects_by_the_label_of_the_flavor() -> None:
    """The value nvidia alone is selected; changes of the content are applied again."""
    carrier, chosen = documents()
    spec = chosen["spec"]
    assert spec["clusterSelector"] == {"matchLabels": {GPU_ADDON_LABEL: "nvidia"}}
    assert spec["strategy"] == "Reconcile"
    assert spec["resources"] == [{"kind": "ConfigMap", "name": carrier["metadata"]["name"]}]
    for found in (carrier, chosen):
        assert "namespace" not in found["metadata"]
    assert "clusterctl.cluster.x-k8s.io/move" in carrier["metadata"]["labels"]


def test_the_runtime_class_comes_first() -> None:
    """Pods that name one which is not there are refused."""
    runtime_class, daemon_set = carried()
    assert runtime_class["kind"] == "RuntimeClass"
    assert runtime_class["handler"] == "nvidia"
    assert daemon_set["kind"] == "DaemonSet"
    assert plugin()["runtimeClassName"] == runtime_class["metadata"]["name"] == "nvidia"


def test_the_plugin_runs_on_gpu_nodes_only() -> None:
    """Selected by our label, whatever its value; two taints are borne."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = plugin()["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": GPU_MODEL_LABEL, "operator": "Exists"}]}
    assert plugin()["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "node.cluster.x-k8s.io/uninitialized", "operator": "Exists"},
    ]
    assert plugin()["priorityClassName"] == "system-node-critical"


def test_the_plugin_fails_where_there_is_no_gpu_and_may_do_little() -> None:
    """A promised GPU that is missing is seen; no privilege and no account is needed."""
    (container,) = plugin()["containers"]
    assert {"name": "FAIL_ON_INIT_ERROR", "value": "true"} in container["env"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert plugin()["automountServiceAccountToken"] is False
    assert [volume["hostPath"]["path"] for volume in plugin()["volumes"]] == [
        "/var/lib/kubelet/device-plugins"
    ]


@pytest.mark.parametrize("name", [GPU_ADDON, GPU_FLAVOR])
def test_the_version_is_pinned_in_one_place(name: str) -> None:
    """A full version, written once."""
    (container,) = plugin()["containers"]
    image, _, version = container["image"].rpartition(":")
    assert image == "nvcr.io/nvidia/k8s-device-plugin"
    assert version.startswith("v")
    assert all(part.isdecimal() for part in version[1:].split("."))
    assert version.count(".") == 2
    assert assets("v0.1.0")[name].count(version) == 1
