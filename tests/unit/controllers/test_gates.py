"""What must be there before a machine may be worked on."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from capvco.api.conditions import Reason
from capvco.api.v1beta1.cluster import SiteStatus, VCOClusterStatus
from capvco.controllers import gates
from capvco.controllers.scope import MachineScope
from capvco.services.outcome import Terminal
from tests.support.builders import (
    CREATED,
    a_cluster,
    a_machine,
    a_site,
    a_vco_cluster,
    a_vco_machine,
)

ALL = MachineScope(a_vco_machine(), a_machine(), a_cluster(), a_vco_cluster())
NO_MACHINE = MachineScope(a_vco_machine(), None, None, None)
NO_CLUSTER = MachineScope(a_vco_machine(), a_machine(), None, None)
NO_VCO_CLUSTER = MachineScope(a_vco_machine(), a_machine(), a_cluster(), None)


def with_cluster(
    *,
    control_plane: bool = False,
    secret: str | None = None,
    infrastructure: bool = True,
    initialized: bool = True,
) -> MachineScope:
    cluster = a_cluster(
        infrastructure_provisioned=infrastructure, control_plane_initialized=initialized
    )
    machine = a_machine(control_plane=control_plane, bootstrap_secret=secret)
    return MachineScope(a_vco_machine(), machine, cluster, a_vco_cluster())


def test_all_gates_open() -> None:
    """Everything is there."""
    assert gates.owner(ALL) is None
    assert gates.infrastructure(ALL) is None
    assert gates.bootstrap(ALL) is None


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (NO_MACHINE, "no Machine owns worker-1 yet"),
        (NO_CLUSTER, "the Cluster prod of the machine does not exist"),
    ],
)
def test_owner(scope: MachineScope, said: str) -> None:
    """Nothing is bought for a machine that nobody owns, or whose Cluster is not there."""
    pending = gates.owner(scope)
    assert pending is not None
    assert (pending.reason, pending.message) == (Reason.WAITING_FOR_OWNER, said)
    assert not pending.failure


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (NO_VCO_CLUSTER, "the VCOCluster of the cluster does not exist yet"),
        (with_cluster(infrastructure=False), "the VCOCluster prod is not provisioned yet"),
        (
            MachineScope(a_vco_machine(), a_machine(), None, a_vco_cluster()),
            "the VCOCluster prod is not provisioned yet",
        ),
    ],
)
def test_infrastructure(scope: MachineScope, said: str) -> None:
    """The Cluster's own word counts: it says that the infrastructure is provisioned."""
    pending = gates.infrastructure(scope)
    assert pending is not None
    assert pending.reason == Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE
    assert pending.message == said


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        (with_cluster(secret="data"), None),
        (with_cluster(secret="data", initialized=False), None),
        (with_cluster(), Reason.WAITING_FOR_BOOTSTRAP_DATA),
        (with_cluster(secret=""), Reason.WAITING_FOR_BOOTSTRAP_DATA),
        (with_cluster(initialized=False), Reason.WAITING_FOR_CONTROL_PLANE),
        (
            with_cluster(control_plane=True, initialized=False),
            Reason.WAITING_FOR_BOOTSTRAP_DATA,
        ),
        (with_cluster(control_plane=True), Reason.WAITING_FOR_BOOTSTRAP_DATA),
    ],
)
def test_bootstrap(scope: MachineScope, reason: Reason | None) -> None:
    """A worker waits for the control plane first; the first control-plane machine cannot."""
    pending = gates.bootstrap(scope)
    assert (pending.reason if pending else None) == reason


def test_every_wait_ends_by_itself() -> None:
    """A gate is looked at again even if no change is seen."""
    waits = (gates.owner(NO_MACHINE), gates.infrastructure(NO_VCO_CLUSTER))
    for pending in (*waits, gates.bootstrap(with_cluster())):
        assert pending is not None
        assert 0 < pending.after <= 600


BORN = datetime.fromisoformat(CREATED).timestamp()


@pytest.mark.parametrize(
    ("scope", "age", "expected"),
    [
        (NO_MACHINE, 0, True),
        (NO_MACHINE, 9, True),
        (NO_MACHINE, 11, False),
        (ALL, 0, False),
        (NO_CLUSTER, 0, False),
    ],
)
def test_newborn(scope: MachineScope, age: float, *, expected: bool) -> None:
    """Only a young object without an owner is left alone, and only for some seconds."""
    assert gates.newborn(scope, BORN + age) == expected


def test_an_object_without_a_date_is_not_newborn() -> None:
    """Nothing is waited for that nobody can date."""
    machine = a_vco_machine()
    machine = replace(machine, metadata=replace(machine.metadata, creation_timestamp=None))
    assert not gates.newborn(MachineScope(machine, None, None, None), BORN)


def test_site_of_a_machine() -> None:
    """Without a failure domain the first site; with one, that site."""
    cluster = a_vco_cluster(sites=(a_site("one"), a_site("two", location="be-g8-5", image_id=9)))
    assert gates.site(cluster, "").name == "one"
    assert gates.site(cluster, "two").location == "be-g8-5"


def test_site_of_a_cluster_that_names_a_location() -> None:
    """A cluster of one location has one site of that name."""
    site = gates.site(a_vco_cluster(location="be-g8-4"), "be-g8-4")
    assert (site.name, site.location, site.external_network_id) == ("be-g8-4", "be-g8-4", 7)


def test_unknown_failure_domain() -> None:
    """The message lists those that exist."""
    cluster = a_vco_cluster(sites=(a_site("one"), a_site("two")))
    with pytest.raises(Terminal) as caught:
        gates.site(cluster, "three")
    assert caught.value.reason == Reason.FAILURE_DOMAIN_UNKNOWN
    assert str(caught.value) == (
        'the Machine asks for the failure domain "three", which the VCOCluster prod does not'
        " have; available: one, two"
    )


def test_cloudspace_of_a_site() -> None:
    """Each site has its own; none yet is empty."""
    one, two = a_site("one"), a_site("two")
    found = (SiteStatus(name="one"), SiteStatus(name="two", cloudspace_id="cs-2"))
    cluster = a_vco_cluster(sites=(one, two), status=VCOClusterStatus(sites=found))
    assert gates.cloudspace_of(cluster, two) == "cs-2"
    assert gates.cloudspace_of(cluster, one) == ""
    assert gates.cloudspace_of(a_vco_cluster(status=VCOClusterStatus()), one) == ""
