"""The workload cluster of the add-on's tests: a second control plane, the test plays kubelets."""

import json
from dataclasses import dataclass

from capvco.api.v1beta1 import GPU_ADDON_LABEL, GPU_MODEL_LABEL
from kubelocal import LocalCluster
from kubelocal.api import Refused
from tests.support.scenario import CAPI, Object, Scenario, a_cluster, a_vco_cluster

DAEMON_SET = "nvidia-device-plugin-daemonset"
_PLUGIN = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{DAEMON_SET}"
_RUNTIME_CLASS = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"


@dataclass(frozen=True)
class Workload:
    """What the tests do with the workload cluster and look at in it."""

    cluster: LocalCluster

    def get(self, path: str) -> Object | None:
        """Return an object, None if there is none."""
        try:
            return self.cluster.read(path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def plugin(self) -> Object | None:
        """Return the DaemonSet of the add-on."""
        return self.get(_PLUGIN)

    def image(self) -> str:
        """Return the image of the DaemonSet, empty without one."""
        found = self.plugin()
        if found is None:
            return ""
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    def runtime_class(self) -> Object | None:
        """Return the RuntimeClass of the add-on."""
        return self.get(_RUNTIME_CLASS)

    def pods(self) -> list[Object]:
        """Return the pods that were made for the DaemonSet."""
        query = "labelSelector=name%3Dnvidia-device-plugin-ds"
        found: list[Object] = self.cluster.read(f"/api/v1/namespaces/kube-system/pods?{query}")[
            "items"
        ]
        return found

    def join(
        self,
        name: str,
        provider_id: str,
        *,
        gpus: str | None = None,
        model: str = "",
        taints: tuple[str, ...] = (),
    ) -> None:
        """Register a node as a kubelet does."""
        labels = {GPU_MODEL_LABEL: model} if model else {}
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "providerID": provider_id,
                "taints": [{"key": key, "effect": "NoSchedule"} for key in taints],
            },
        }
        self.cluster.kubectl("create", "-f", "-", input=json.dumps(node))
        if gpus is not None:
            self.offer(name, gpus)

    def labels(self, node: str) -> dict[str, str]:
        """Return the labels of a node that must be there."""
        found = self.get(f"/api/v1/nodes/{node}")
        assert found is not None, f"no node {node}"
        return dict(found["metadata"].get("labels", {}))

    def offer(self, node: str, gpus: str) -> None:
        """Report how many GPUs a node has, as its kubelet does on behalf of the plugin."""
        amounts = {"nvidia.com/gpu": gpus}
        status = json.dumps({"status": {"capacity": amounts, "allocatable": amounts}})
        self.cluster.kubectl(
            "patch", "node", node, "--subresource=status", "--type=merge", "-p", status
        )

    def clean(self) -> None:
        """Take away what a test may have left."""
        self.cluster.kubectl("delete", "nodes", "--all", "--wait=false")
        self.uninstall()

    def uninstall(self) -> None:
        """Delete the objects of the add-on, as an administrator does."""
        for kind, name in (("daemonset", DAEMON_SET), ("runtimeclass", "nvidia")):
            self.cluster.kubectl(
                "delete", kind, name, "-n", "kube-system", "--ignore-not-found", "--wait"
            )


def reach(scenario: Scenario, cluster: str, kubeconfig: str) -> None:
    """Tell Cluster API and us how a workload cluster is reached, as its control plane does."""
    scenario.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": f"{CAPI}/secret",
            "metadata": {
                "name": f"{cluster}-kubeconfig",
                "labels": {f"{CAPI}/cluster-name": cluster},
            },
            "stringData": {"value": kubeconfig},
        }
    )


def put_cluster(scenario: Scenario, name: str, addon: str, workload: LocalCluster) -> None:
    """Apply a cluster that is a workload cluster's, with a value of the add-on's label."""
    reach(scenario, name, workload.kubeconfig.read_text())
    cluster = a_cluster(name)
    cluster["metadata"]["labels"] = {GPU_ADDON_LABEL: addon}
    scenario.apply(cluster, a_vco_cluster(name))


def provisioned(scenario: Scenario, name: str) -> bool:
    """Say whether Cluster API takes the infrastructure of a cluster for provisioned."""
    found = scenario.get("clusters", name) or {}
    progress = found.get("status", {}).get("initialization", {})
    return bool(progress.get("infrastructureProvisioned"))
