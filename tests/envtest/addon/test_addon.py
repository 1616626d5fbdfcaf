"""The real ClusterResourceSet controller installs the add-on into a real second API server."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from capvco.api.v1beta1 import GPU_ADDON_LABEL
from capvco.release.build import GPU_ADDON, assets
from kubelocal.api import Refused
from tests.conftest import VERSION
from tests.envtest.addon.workload import Workload, provisioned, put_cluster, reach
from tests.envtest.api.clusterctl import gpu_demo
from tests.support.scenario import EXTERNAL_NETWORK, IMAGE, LOCATION, Object, Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
PLACE = {
    "VCO_LOCATION": LOCATION,
    "VCO_IMAGE_ID": str(IMAGE),
    "VCO_EXTNET_ID": str(EXTERNAL_NETWORK),
}
SET = "capvco-gpu-nvidia"
NEWER = "nvcr.io/nvidia/k8s-device-plugin:v99.0.0"


def addon() -> str:
    return assets(VERSION)[GPU_ADDON]


def apply_addon(scenario: Scenario, text: str) -> None:
    """Apply the add-on's own file, as a person does who upgrades."""
    scenario.cluster.kubectl("apply", "-n", scenario.namespace, "-f", "-", input=text)


def binding(scenario: Scenario, cluster: str) -> Object | None:
    """Return what Cluster API notes of the sets of a cluster."""
    group = f"/apis/addons.cluster.x-k8s.io/v1beta2/namespaces/{scenario.namespace}"
    try:
        return scenario.cluster.read(f"{group}/clusterresourcesetbindings/{cluster}")
    except Refused as error:
        if error.status == 404:
            return None
        raise


def applied(scenario: Scenario, cluster: str, name: str = SET) -> bool:
    """Say whether Cluster API has installed the add-on, or another set, into a cluster."""
    noted = binding(scenario, cluster) or {}
    return any(
        entry["clusterResourceSetName"] == name
        and all(resource["applied"] for resource in entry.get("resources", [{"applied": False}]))
        for entry in noted.get("spec", {}).get("bindings", [])
    )


def installed(scenario: Scenario, cluster: str, name: str = SET) -> None:
    """Wait until Cluster API has installed the add-on, or another set, into a cluster."""
    scenario.until(f"{name} in {cluster}", lambda: applied(scenario, cluster, name), seconds=90)


def label(scenario: Scenario, cluster: str, addon: str) -> None:
    scenario.kubectl(
        *("label", "clusters.cluster.x-k8s.io", cluster, f"{GPU_ADDON_LABEL}={addon}"),
        "--overwrite",
    )


def test_the_flavor_brings_the_plugin(managed: Scenario, workload: Workload) -> None:
    """The guide's command line, the whole flavor, and in the end a plugin on GPU nodes only."""
    reach(managed, "gpu-demo", workload.cluster.kubeconfig.read_text())
    managed.cluster.apply(gpu_demo(managed.cluster, managed.namespace, **PLACE))
    installed(managed, "gpu-demo")

    runtime_class, plugin = workload.runtime_class(), workload.plugin()
    assert runtime_class is not None
    assert runtime_class["handler"] == "nvidia"
    assert plugin is not None
    pod = plugin["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"].startswith("nvcr.io/nvidia/k8s-device-plugin:v")
    assert {"name": "FAIL_ON_INIT_ERROR", "value": "true"} in container["env"]

    taints = ("nvidia.com/gpu", "node.cluster.x-k8s.io/uninitialized")
    workload.join("without", "vco://somewhere/1")
    workload.join("with", "vco://somewhere/2", model="nvidia-a100", taints=taints)
    managed.until("a pod of the plugin", workload.pods)
    (made,) = workload.pods()
    assert bound_to(made) == ["with"]
    assert made["spec"]["runtimeClassName"] == "nvidia"
    assert made["spec"]["priority"] > 2_000_000_000
    managed.until("the count of nodes", lambda: counts(workload).get("desiredNumberScheduled") == 1)

    managed.delete("clusters", "gpu-demo")
    managed.until("the cluster gone", lambda: managed.gone("clusters", "gpu-demo"))
    assert managed.held == 0


def bound_to(pod: Object) -> list[str]:
    """Return the nodes that the DaemonSet controller meant a pod for."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    return [name for field in term["matchFields"] for name in field["values"]]


def counts(workload: Workload) -> Mapping[str, int]:
    """Return the status of the DaemonSet once it was counted."""
    status: Mapping[str, int] = (workload.plugin() or {}).get("status", {})
    return status if status.get("observedGeneration") else {}


def test_none_is_left_alone_and_can_be_changed(managed: Scenario, workload: Workload) -> None:
    """A cluster that says none is not selected, beside one that is; its label is the switch."""
    apply_addon(managed, addon())
    put_cluster(managed, "bare", "none", workload.cluster)
    managed.until("the bare cluster", lambda: provisioned(managed, "bare"))
    assert workload.plugin() is None
    put_cluster(managed, "full", "nvidia", workload.cluster)
    installed(managed, "full")
    assert binding(managed, "bare") is None
    label(managed, "bare", "nvidia")
    installed(managed, "bare")


def test_a_variant_of_ones_own(managed: Scenario, workload: Workload) -> None:
    """The file under another name, for another value of the label, as the guide says."""
    mine = (
        addon()
        .replace(SET, "ours")
        .replace(f"{GPU_ADDON_LABEL}: nvidia", f"{GPU_ADDON_LABEL}: ours")
    )
    apply_addon(managed, addon())
    apply_addon(managed, mine.replace(image_of(addon()), NEWER))
    put_cluster(managed, "demo", "ours", workload.cluster)
    installed(managed, "demo", "ours")
    assert not applied(managed, "demo")
    assert workload.image() == NEWER


def image_of(text: str) -> str:
    """Return the image that the file names."""
    return next(line.split()[-1] for line in text.splitlines() if " image: " in line)


def test_an_upgrade_reaches_clusters_that_are_there(managed: Scenario, workload: Workload) -> None:
    """A changed ConfigMap is applied again: same DaemonSet, new image, the rest kept."""
    put_cluster(managed, "demo", "nvidia", workload.cluster)
    apply_addon(managed, addon())
    installed(managed, "demo")
    before = workload.plugin() or {}
    assert workload.image() == image_of(addon())
    apply_addon(managed, addon().replace(image_of(addon()), NEWER))
    managed.until("the new image", lambda: workload.image() == NEWER)
    after = workload.plugin() or {}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    old, new = (found["spec"]["template"]["spec"] for found in (before, after))
    old["containers"][0]["image"] = NEWER
    assert new == old


def test_removal(managed: Scenario, workload: Workload) -> None:
    """As the guide says: the label takes nothing away, a person does; the way back is open."""
    apply_addon(managed, addon())
    put_cluster(managed, "demo", "nvidia", workload.cluster)
    installed(managed, "demo")
    label(managed, "demo", "none")
    managed.kubectl("delete", "clusterresourcesetbinding", "demo")
    assert workload.plugin() is not None
    workload.uninstall()
    assert workload.plugin() is None
    assert workload.runtime_class() is None
    assert binding(managed, "demo") is None
    label(managed, "demo", "nvidia")
    installed(managed, "demo")
    assert workload.plugin() is not None

    managed.kubectl("delete", "clusterresourceset", SET)
    assert workload.plugin() is not None
    assert workload.runtime_class() is not None


def test_a_plugin_that_was_there_is_taken_over(managed: Scenario, workload: Workload) -> None:
    """NVIDIA's own manifest, applied by hand: there is one plugin afterwards, and it is ours."""
    objects = [found for found in yaml.safe_load_all(addon()) if found]
    (carrier,) = [found for found in objects if found["kind"] == "ConfigMap"]
    theirs = yaml.safe_load(carrier["data"]["02-device-plugin.yaml"])
    pod = theirs["spec"]["template"]["spec"]
    for name in ("affinity", "runtimeClassName", "automountServiceAccountToken"):
        del pod[name]
    pod["containers"][0] |= {"image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "env": []}
    workload.cluster.apply(yaml.safe_dump(theirs))
    before = workload.plugin() or {}

    apply_addon(managed, addon())
    put_cluster(managed, "demo", "nvidia", workload.cluster)
    installed(managed, "demo")
    after = workload.plugin() or {}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["template"]["spec"]["runtimeClassName"] == "nvidia"
    assert "nodeAffinity" in after["spec"]["template"]["spec"]["affinity"]
    assert not workload.image().endswith(":v0.17.1")


def test_it_moves_with_the_clusters(scenario: Scenario, tmp_path: Path) -> None:
    """The real clusterctl move takes set and content along, also while no cluster is selected."""
    apply_addon(scenario, addon())
    scenario.cluster.clusterctl(
        *("move", "--namespace", scenario.namespace, "--to-directory", str(tmp_path)),
        *("--kubeconfig", str(scenario.cluster.kubeconfig)),
    )
    moved = [yaml.safe_load(path.read_text()) for path in tmp_path.iterdir()]
    kinds = {found["kind"] for found in moved if found["metadata"]["name"] == SET}
    assert kinds == {"ConfigMap", "ClusterResourceSet"}
