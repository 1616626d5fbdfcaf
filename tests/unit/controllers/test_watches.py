"""Which change of which object makes which key worth a look."""

import pytest
from msgspec.structs import replace

from capvco.api.upstream import PAUSED_ANNOTATION, Machine, Reference
from capvco.api.v1beta1 import GROUP, RECORD_ANNOTATION
from capvco.api.v1beta1.cluster import ControlPlaneEndpoint, VCOCluster
from capvco.api.v1beta1.machine import VCOMachine
from capvco.controllers import watches
from capvco.runtime.cache import Change
from capvco.runtime.kinds import Key
from tests.support.builders import (
    a_cluster,
    a_condition,
    a_gpu_request,
    a_machine,
    a_provisioned_status,
    a_vco_cluster,
    a_vco_machine,
    an_owner,
)

WORKER = Key("default", "worker-1")
PROD = Key("default", "prod")
FINALIZER = "vcomachine.infrastructure.cluster.x-k8s.io"


@pytest.mark.parametrize(
    "new",
    [
        a_vco_machine(status=a_provisioned_status()),
        a_vco_machine(provider_id="vco://a/b/c"),
        a_vco_machine(annotations={RECORD_ANNOTATION: "{}"}),
        a_vco_machine(finalizers=(FINALIZER,)),
        replace(a_vco_machine(), metadata=replace(a_vco_machine().metadata, resource_version="9")),
    ],
)
def test_our_own_writes_wake_nobody(new: VCOMachine) -> None:
    """Status, record, provider id and finalizer come from us: they are no news."""
    assert watches.of_vco_machine(Change(a_vco_machine(), new)) is None


@pytest.mark.parametrize(
    "new",
    [
        a_vco_machine(deleting=True),
        a_vco_machine(paused=True),
        a_vco_machine(annotations={PAUSED_ANNOTATION: "false"}),
        a_vco_machine(gpu=a_gpu_request()),
        a_vco_machine(owned=False),
        a_vco_machine(owner=an_owner("Machine", "other")),
        a_vco_machine(uid="made-again"),
    ],
)
def test_wishes_of_others_wake_a_machine(new: VCOMachine) -> None:
    """Deletion, pause, spec, owner, a new object under the name: in both directions."""
    assert watches.of_vco_machine(Change(a_vco_machine(), new)) == WORKER
    assert watches.of_vco_machine(Change(new, a_vco_machine())) == WORKER


def test_a_new_and_a_gone_machine() -> None:
    """What is new is looked at; what is gone needs nothing."""
    assert watches.of_vco_machine(Change(None, a_vco_machine())) == WORKER
    assert watches.of_vco_machine(Change(a_vco_machine(), None)) is None


ENDPOINT = ControlPlaneEndpoint(host="10.0.0.1", port=6443)


@pytest.mark.parametrize(
    ("new", "woken"),
    [
        (a_vco_cluster(provisioned=False, cloudspace_id=None), False),
        (a_vco_cluster(endpoint=ENDPOINT), False),
        (a_vco_cluster(annotations={RECORD_ANNOTATION: "{}"}), False),
        (a_vco_cluster(deleting=True), True),
        (a_vco_cluster(paused=True), True),
        (a_vco_cluster(identity="others"), True),
        (a_vco_cluster(location="be-g8-5"), True),
    ],
)
def test_vco_clusters(new: VCOCluster, *, woken: bool) -> None:
    """What we write wakes nobody; what others want does."""
    assert watches.of_vco_cluster(Change(a_vco_cluster(), new)) == (PROD if woken else None)


def test_a_new_and_a_gone_vco_cluster() -> None:
    """What is new is looked at; what is gone needs nothing."""
    assert watches.of_vco_cluster(Change(None, a_vco_cluster())) == PROD
    assert watches.of_vco_cluster(Change(a_vco_cluster(), None)) is None


@pytest.mark.parametrize(
    ("new", "woken"),
    [
        (a_machine(provider_id="vco://a/b/c"), False),
        (a_machine(deleting=True), False),
        (a_machine(bootstrap_secret="other"), True),
        (a_machine(failure_domain="two"), True),
        (a_machine(cluster="other"), True),
    ],
)
def test_machines(new: Machine, *, woken: bool) -> None:
    """Bootstrap data and failure domain matter; the provider id comes from us."""
    old = a_machine()
    assert watches.machine_to_vco_machine(Change(old, new)) == (WORKER if woken else None)


@pytest.mark.parametrize("change", [Change(None, a_machine()), Change(a_machine(), None)])
def test_a_new_and_a_gone_machine_of_cluster_api(change: Change[Machine]) -> None:
    """Both may be what a VCOMachine waits for."""
    assert watches.machine_to_vco_machine(change) == WORKER


@pytest.mark.parametrize("group", [GROUP, "other.example"])
@pytest.mark.parametrize("kind", ["VCOMachine", "AWSMachine"])
def test_machines_of_other_providers(group: str, kind: str) -> None:
    """Only a reference to our kind in our group is ours."""
    reference = Reference(kind=kind, name="its-name", api_group=group)
    found = watches.machine_to_vco_machine(Change(None, a_machine(infrastructure=reference)))
    ours = (group, kind) == (GROUP, "VCOMachine")
    assert found == (Key("default", "its-name") if ours else None)


def test_a_machine_without_infrastructure() -> None:
    """A Machine may have no reference yet."""
    bare = a_machine()
    bare = replace(bare, spec=replace(bare.spec, infrastructure_ref=None))
    assert watches.machine_to_vco_machine(Change(None, bare)) is None


def test_clusters() -> None:
    """Pause and progress wake all that is in a cluster; metadata does not."""
    old = a_cluster(infrastructure_provisioned=False)
    relabelled = replace(old, metadata=replace(old.metadata, labels={"a": "b"}))
    assert watches.cluster_changed(Change(old, relabelled)) is None
    for new in (a_cluster(), replace(old, spec=a_cluster(paused=True).spec), None):
        assert watches.cluster_changed(Change(old, new)) == PROD
    assert watches.cluster_changed(Change(None, old)) == PROD


def test_the_last_machine_wakes_its_cluster() -> None:
    """A VCOCluster that is being deleted waits for its machines."""
    gone = a_vco_machine(cluster="prod")
    assert watches.machines_left(Change(gone, None)) == PROD
    assert watches.machines_left(Change(gone, a_vco_machine(deleting=True))) is None
    assert watches.machines_left(Change(None, gone)) is None
    assert watches.machines_left(Change(a_vco_machine(cluster=""), None)) is None


def test_index_by_cluster() -> None:
    """Machines are found by the namespace and the label of their cluster."""
    assert list(watches.by_cluster(a_vco_machine())) == ["default/prod"]
    assert list(watches.by_cluster(a_vco_machine(namespace="n", cluster="c"))) == ["n/c"]
    assert list(watches.by_cluster(a_vco_machine(cluster=""))) == []


def test_conditions_wake_nobody() -> None:
    """A condition is our own word."""
    status = replace(a_provisioned_status(), conditions=(a_condition("Ready", "False", "VMGone"),))
    assert watches.of_vco_machine(Change(a_vco_machine(), a_vco_machine(status=status))) is None


def test_clusters_with_nodes() -> None:
    """Each cluster with a provisioned machine, and whether one of those has a GPU."""
    up = a_provisioned_status()
    machines = [
        a_vco_machine(cluster="plain", status=up),
        a_vco_machine(cluster="mixed", gpu=a_gpu_request(), status=up),
        a_vco_machine(cluster="mixed", status=up),
        a_vco_machine(cluster="early", gpu=a_gpu_request()),
        a_vco_machine(cluster="late", gpu=a_gpu_request(), status=up, deleting=True),
        a_vco_machine(cluster="", status=up),
    ]
    expected = {Key("default", "plain"): False, Key("default", "mixed"): True}
    assert watches.node_clusters(machines) == expected
    assert watches.node_clusters(reversed(machines)) == expected
