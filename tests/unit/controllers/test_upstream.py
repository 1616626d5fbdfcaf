"""Objects of others, as an API server really sends them."""

from typing import TypeVar

import pytest
from msgspec import Struct, ValidationError
from msgspec.json import decode

from capvco.api.meta import ObjectMeta, OwnerReference, find, has_annotation
from capvco.api.upstream import Cluster, Endpoint, Machine, Reference, Secret
from capvco.api.v1beta1.machine import VCOMachine
from tests.support.builders import a_condition, an_owner

S = TypeVar("S", bound=Struct)

CLUSTER = """
{
  "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
  "metadata": {
    "name": "prod", "namespace": "default", "uid": "6d0f5f0a", "resourceVersion": "7421",
    "generation": 3, "creationTimestamp": "2026-11-30T08:00:00Z",
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    "finalizers": ["cluster.cluster.x-k8s.io"],
    "managedFields": [{"manager": "manager", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
  },
  "spec": {
    "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
    "controlPlaneEndpoint": {"host": "195.1.2.3", "port": 6443},
    "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io",
      "kind": "KubeadmControlPlane", "name": "prod"},
    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
      "kind": "VCOCluster", "name": "prod"}
  },
  "status": {
    "conditions": [{"type": "Available", "status": "True", "reason": "Available",
      "lastTransitionTime": "2026-11-30T08:01:00Z"}],
    "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
    "phase": "Provisioned", "workers": {"replicas": 3}
  }
}
"""

MACHINE = """
{
  "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
  "metadata": {
    "name": "prod-md-0-x7k2p", "namespace": "default", "uid": "0b5e", "resourceVersion": "99",
    "labels": {"cluster.x-k8s.io/cluster-name": "prod",
      "cluster.x-k8s.io/control-plane": "",
      "cluster.x-k8s.io/deployment-name": "prod-md-0"},
    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
      "name": "prod-md-0", "uid": "77", "controller": true, "blockOwnerDeletion": true}]
  },
  "spec": {
    "bootstrap": {
      "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "x"},
      "dataSecretName": "prod-md-0-x7k2p"
    },
    "clusterName": "prod", "failureDomain": "be-g8-4",
    "deletion": {"nodeDeletionTimeoutSeconds": 10},
    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
      "kind": "VCOMachine", "name": "prod-md-0-x7k2p"},
    "providerID": "vco://be-g8-4/default/prod-md-0-x7k2p-0a1b2c3d",
    "version": "v1.35.8"
  },
  "status": {"phase": "Running", "nodeRef": {"name": "prod-md-0-x7k2p"}}
}
"""


def bare(kind: type[S]) -> S:
    return decode('{"metadata": {"name": "x", "namespace": "n"}}', type=kind)


def test_cluster() -> None:
    """What is read of a Cluster, and nothing else of it is kept."""
    cluster = decode(CLUSTER, type=Cluster)
    assert cluster.metadata.finalizers == ("cluster.cluster.x-k8s.io",)
    assert not cluster.spec.paused
    assert cluster.spec.control_plane_endpoint == Endpoint("195.1.2.3", 6443)
    assert cluster.spec.infrastructure_ref == Reference(
        kind="VCOCluster", name="prod", api_group="infrastructure.cluster.x-k8s.io"
    )
    assert cluster.status.initialization.infrastructure_provisioned
    assert cluster.status.initialization.control_plane_initialized
    assert not hasattr(cluster.metadata, "managed_fields")


def test_new_cluster() -> None:
    """Before anything happened there is no status, and a reference may be missing."""
    cluster = bare(Cluster)
    assert not cluster.status.initialization.infrastructure_provisioned
    assert not cluster.status.initialization.control_plane_initialized
    assert cluster.spec.infrastructure_ref is None
    assert not decode(
        '{"metadata": {}, "status": {"initialization": {}}}', type=Cluster
    ).spec.paused


def test_paused_cluster() -> None:
    """The one switch of a person's that we read."""
    assert decode('{"metadata": {}, "spec": {"paused": true}}', type=Cluster).spec.paused


def test_machine() -> None:
    """What is read of a Machine."""
    machine = decode(MACHINE, type=Machine)
    assert machine.spec.cluster_name == "prod"
    assert machine.spec.bootstrap.data_secret_name == "prod-md-0-x7k2p"
    assert machine.spec.failure_domain == "be-g8-4"
    assert machine.spec.provider_id == "vco://be-g8-4/default/prod-md-0-x7k2p-0a1b2c3d"
    assert machine.spec.infrastructure_ref is not None
    assert machine.spec.infrastructure_ref.kind == "VCOMachine"
    assert machine.is_control_plane
    assert machine.metadata.owner("cluster.x-k8s.io", "MachineSet") is not None


def test_new_machine() -> None:
    """A Machine without bootstrap data yet, and no member of the control plane."""
    machine = bare(Machine)
    assert machine.spec.bootstrap.data_secret_name is None
    assert not machine.is_control_plane


def test_secret() -> None:
    """Values are decoded, and never shown."""
    text = """
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "n"},
     "type": "cluster.x-k8s.io/secret",
     "data": {"format": "Y2xvdWQtY29uZmln", "value": "aHVudGVyMg==", "empty": ""}}
    """
    secret = decode(text, type=Secret)
    assert secret.data == {"format": b"cloud-config", "value": b"hunter2", "empty": b""}
    assert repr(secret) == "Secret(n/x, keys=['empty', 'format', 'value'])"
    assert "hunter2" not in f"{secret} {[secret]} {secret!r}"
    assert bare(Secret).data == {}


def test_a_vco_machine_as_a_person_writes_it() -> None:
    """The object of the GPU page; defaults stand in for what is left out."""
    text = """
    {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachine",
     "metadata": {"name": "gpu-1"},
     "spec": {"imageID": 11, "gpu": {"type": "NVIDIA A100", "count": 1, "driverVersion": "550"}}}
    """
    machine = decode(text, type=VCOMachine)
    assert machine.spec.gpu is not None
    assert (machine.spec.gpu.type, machine.spec.gpu.profile_id) == ("NVIDIA A100", None)
    assert (machine.spec.boot_type, machine.spec.vcpus) == ("bios", 2)
    assert machine.status.gpus == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{}", "missing required field `metadata`"),
        ('{"metadata": {}, "spec": {"paused": "yes"}}', "at `$.spec.paused`"),
        (
            '{"metadata": {}, "spec": {"controlPlaneEndpoint": {"port": "x"}}}',
            "at `$.spec.controlPlaneEndpoint.port`",
        ),
    ],
)
def test_what_is_not_an_object(text: str, where: str) -> None:
    """An answer of another shape says where it differs."""
    with pytest.raises(ValidationError) as caught:
        decode(text, type=Cluster)
    assert where in str(caught.value)


def test_owners_by_group_and_kind() -> None:
    """The version of an owner does not matter, nor whether it is the controller."""
    machine = an_owner("Machine", "m", version="v1beta1")
    core = OwnerReference(api_version="v1", kind="Machine", name="core", uid="u")
    meta = ObjectMeta(owner_references=(core, machine))
    assert (core.group, machine.group) == ("", "cluster.x-k8s.io")
    assert meta.owner("cluster.x-k8s.io", "Machine") == machine
    assert meta.owner("", "Machine") == core
    assert meta.owner("cluster.x-k8s.io", "Cluster") is None


def test_small_helpers() -> None:
    """A condition is found by its type; an annotation counts by its presence."""
    conditions = (a_condition("A"), a_condition("B", "False", "X"))
    assert find(conditions, "B") == conditions[1]
    assert find(conditions, "C") is None
    assert has_annotation({"a": ""}, "a")
    assert not has_annotation({"a": ""}, "b")
