"""The objects that the demo applies: a cluster with a pool of GPU workers."""

import json
from typing import Any

from msgspec import Struct

NAMESPACE = "default"
CLUSTER = "demo"
POOL = f"{CLUSTER}-gpu"
SECRET = "vco-credentials"  # noqa: S105 - the name of a Secret
BOOTSTRAP = f"{POOL}-bootstrap"
_API = "infrastructure.cluster.x-k8s.io"
_CAPI = "cluster.x-k8s.io/v1beta2"

# A Kubernetes manifest: an open JSON document.
Manifest = dict[str, Any]

# What a kubeadm bootstrap provider writes for a worker; nothing in it is a secret.
_USER_DATA = """\
## template: jinja
#cloud-config

write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  owner: root:root
  permissions: '0640'
  content: |
    ---
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    discovery:
      bootstrapToken:
        apiServerEndpoint: 203.0.113.2:6443
        token: madeup.forthisdemo00000
        unsafeSkipCAVerification: true
    nodeRegistration:
      name: '{{ ds.meta_data.local_hostname }}'
runcmd:
- kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && \
echo success > /run/cluster-api/bootstrap-success.complete
"""


class Wish(Struct, frozen=True, kw_only=True):
    """What the demo's user wants; ids are those of the simulator's stock world."""

    gpu_type: str
    machines: int
    location: str = "be-mac-dc01-001"
    external_network_id: int = 11
    image_id: int = 203


class Access(Struct, frozen=True, kw_only=True):
    """How the demo's user gets into the cloud."""

    api_url: str
    iam_url: str
    customer_id: str
    client_id: str
    client_secret: str


def manifests(wish: Wish, access: Access) -> str:
    """Return everything that the user applies, as one text."""
    found = (
        _secret(SECRET, _credentials(access), labels={"clusterctl.cluster.x-k8s.io/move": ""}),
        _secret(BOOTSTRAP, {"value": _USER_DATA, "format": "cloud-config"}),
        _cluster(),
        _vco_cluster(wish),
        _template(wish),
        _pool(wish),
    )
    return "\n---\n".join(json.dumps(manifest) for manifest in found)


def _meta(name: str, labels: dict[str, str] | None = None) -> Manifest:
    return {"name": name, "namespace": NAMESPACE, "labels": labels or {}}


def _credentials(access: Access) -> dict[str, str]:
    return {
        "apiURL": access.api_url,
        "iamURL": access.iam_url,
        "customerID": access.customer_id,
        "clientID": access.client_id,
        "clientSecret": access.client_secret,
    }


def _secret(name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> Manifest:
    meta = _meta(name, labels)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data}


def _cluster() -> Manifest:
    reference = {"apiGroup": _API, "kind": "VCOCluster", "name": CLUSTER}
    return {
        "apiVersion": _CAPI,
        "kind": "Cluster",
        "metadata": _meta(CLUSTER, {"capvco.infrastructure.cluster.x-k8s.io/gpu": "nvidia"}),
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "infrastructureRef": reference,
        },
    }


def _vco_cluster(wish: Wish) -> Manifest:
    return {
        "apiVersion": f"{_API}/v1beta1",
        "kind": "VCOCluster",
        "metadata": _meta(CLUSTER),
        "spec": {
            "identityRef": {"name": SECRET},
            "location": wish.location,
            "externalNetworkID": wish.external_network_id,
        },
    }


def _template(wish: Wish) -> Manifest:
    spec = {
        "imageID": wish.image_id,
        "vcpus": 8,
        "memoryMiB": 32768,
        "diskGiB": 100,
        "gpu": {"type": wish.gpu_type, "count": 1, "driverVersion": "570"},
    }
    return {
        "apiVersion": f"{_API}/v1beta1",
        "kind": "VCOMachineTemplate",
        "metadata": _meta(POOL),
        "spec": {"template": {"spec": spec}},
    }


def _pool(wish: Wish) -> Manifest:
    machine = {
        "clusterName": CLUSTER,
        "version": "v1.36.3",
        "bootstrap": {"dataSecretName": BOOTSTRAP},
        "infrastructureRef": {"apiGroup": _API, "kind": "VCOMachineTemplate", "name": POOL},
    }
    return {
        "apiVersion": _CAPI,
        "kind": "MachineDeployment",
        "metadata": _meta(POOL),
        "spec": {
            "clusterName": CLUSTER,
            "replicas": wish.machines,
            "selector": {},
            "template": {"spec": machine},
        },
    }
