"""The objects of an example, made as Cluster API would make them: with their owners."""

from tests.support.scenario import (
    CAPI,
    USER_DATA,
    Object,
    a_cluster,
    a_machine,
    a_vco_cluster,
    a_vco_machine,
)
from tests.support.simulator import Simulator

CLUSTER = "demo"
IDENTITIES = ("vco-credentials", "vco-credentials-too")
_BOOTSTRAP = "bootstrap"


def secrets(simulator: Simulator) -> list[Object]:
    """Return two Secrets with the same credentials, and the bootstrap data of all machines."""
    data = {"value": USER_DATA, "format": "cloud-config"}
    return [*(_secret(name, simulator.secret) for name in IDENTITIES), _secret(_BOOTSTRAP, data)]


def _secret(name: str, data: dict[str, str]) -> Object:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data}


def cluster() -> Object:
    """Return the Cluster."""
    return a_cluster(CLUSTER)


def vco_cluster(owner: Object, **spec: object) -> Object:
    """Return the VCOCluster of a Cluster that exists."""
    return _owned(a_vco_cluster(CLUSTER, **spec), owner)


def machine(name: str) -> Object:
    """Return a Machine with its bootstrap data."""
    return a_machine(name, CLUSTER, bootstrap={"dataSecretName": _BOOTSTRAP})


def vco_machine(owner: Object, **spec: object) -> Object:
    """Return the VCOMachine of a Machine that exists."""
    return _owned(a_vco_machine(owner["metadata"]["name"], CLUSTER, **spec), owner)


def _owned(one: Object, owner: Object) -> Object:
    reference = {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    labels = {f"{CAPI}/cluster-name": CLUSTER}
    one["metadata"] |= {"ownerReferences": [reference], "labels": labels}
    return one
