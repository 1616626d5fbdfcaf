"""The Kubernetes objects of the benchmark."""

from __future__ import annotations

from typing import Any

from bench import cloud
from capvco.api.v1beta1 import GPU_ADDON_LABEL

INFRA = "infrastructure.cluster.x-k8s.io"
CAPI = "cluster.x-k8s.io"
NAMESPACE = "default"
CLUSTER = "bench"
POOL = f"{CLUSTER}-gpu"
CREDENTIALS = "vco-credentials"
BOOTSTRAP = "bench-bootstrap"
_USER_DATA = """\
#cloud-config
runcmd:
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml
"""

# A Kubernetes object as JSON has it: an open document, so its values are of any type.
Object = dict[str, Any]


def path(plural: str, name: str = "") -> str:
    """Return the API path of a kind in the benchmark's namespace, or of one object."""
    if plural == "secrets":
        base = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    else:
        group = f"{INFRA}/v1beta1" if plural.startswith("vco") else f"{CAPI}/v1beta2"
        base = f"/apis/{group}/namespaces/{NAMESPACE}/{plural}"
    return f"{base}/{name}" if name else base


def _meta(name: str, **more: object) -> Object:
    labels = {f"{CAPI}/cluster-name": CLUSTER}
    return {"name": name, "namespace": NAMESPACE, "labels": labels} | more


def secrets(credentials: dict[str, str]) -> tuple[Object, Object]:
    """Return the credentials and the bootstrap data that all machines share."""
    data = {"value": _USER_DATA, "format": "cloud-config"}
    return _secret(CREDENTIALS, credentials), _secret(BOOTSTRAP, data)


def _secret(name: str, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _meta(name), "stringData": data}


def cluster(*, still: bool = False) -> Object:
    """Return the Cluster; ``still``: its nodes, which do not exist here, are not asked for GPUs."""
    meta = _meta(CLUSTER)
    meta["labels"] |= {GPU_ADDON_LABEL: "none"} if still else {}
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "Cluster",
        "metadata": meta,
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "infrastructureRef": {"apiGroup": INFRA, "kind": "VCOCluster", "name": CLUSTER},
        },
    }


def vco_cluster(owner: Object | None = None) -> Object:
    """Return the VCOCluster, owned as Cluster API's managers would have it owned."""
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOCluster",
        "metadata": _meta(CLUSTER, **_owned(owner)),
        "spec": {
            "identityRef": {"name": CREDENTIALS},
            "location": cloud.LOCATION,
            "externalNetworkID": cloud.EXTERNAL_NETWORK,
            # The platform's default network has addresses for some 250 machines.
            "cloudspace": {"privateNetwork": "10.100.0.0/16"},
        },
    }


def _owned(owner: Object | None) -> Object:
    if owner is None:
        return {}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"ownerReferences": [reference]}


def _machine_spec(kind: str, name: str) -> Object:
    return {
        "clusterName": CLUSTER,
        "version": "v1.36.3",
        "bootstrap": {"dataSecretName": BOOTSTRAP},
        "infrastructureRef": {"apiGroup": INFRA, "kind": kind, "name": name},
    }


def _vco_machine_spec(*, still: bool = False) -> Object:
    gpu = {"type": cloud.GPU_TYPE, "count": 1} | ({} if still else {"driverVersion": "570"})
    return {"imageID": cloud.IMAGE, "vcpus": 8, "memoryMiB": 32768, "diskGiB": 100, "gpu": gpu}


def machine(name: str) -> Object:
    """Return a Machine."""
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "Machine",
        "metadata": _meta(name),
        "spec": _machine_spec("VCOMachine", name),
    }


def vco_machine(owner: Object, *, still: bool = False) -> Object:
    """Return the VCOMachine of a Machine that exists; ``still``: no driver is waited for."""
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOMachine",
        "metadata": _meta(owner["metadata"]["name"], **_owned(owner)),
        "spec": _vco_machine_spec(still=still),
    }


def template() -> Object:
    """Return the VCOMachineTemplate of the pool."""
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOMachineTemplate",
        "metadata": _meta(POOL),
        "spec": {"template": {"spec": _vco_machine_spec()}},
    }


def pool() -> Object:
    """Return the MachineDeployment, without machines yet."""
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "MachineDeployment",
        "metadata": _meta(POOL),
        "spec": {
            "clusterName": CLUSTER,
            "replicas": 0,
            "selector": {},
            "template": {"spec": _machine_spec("VCOMachineTemplate", POOL)},
        },
    }
