"""Owners told by a real API server, and the release of what nobody owns."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from capvco.cli.gpucheck.reports import ListReport, ReleaseReport
from capvco.services.record import Record, Slot
from kubelocal import LocalCluster
from tests.contract.gpucheck.cluster import Management
from tests.contract.gpucheck.conftest import Desk
from tests.support.kubelocal_fixture import shared_control_plane
from vcosim.stock import BE, CUSTOMER

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

LOST = "capvco-deleted-gpu-0"
HOUR = 3600.0


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run one of our own: all namespaces are read, so nobody else may leave machines there."""
    with shared_control_plane(tmp_path_factory.mktemp("gpucheck")) as cluster:
        Management(cluster, "default", Path()).install()
        yield cluster


@pytest.fixture
def management(control_plane: LocalCluster, tmp_path: Path) -> Iterator[Management]:
    made = Management(control_plane, control_plane.create_namespace("gpucheck"), tmp_path)
    yield made
    made.clear()


def a_record(*slots: Slot, space: str = "", customer: str = CUSTOMER) -> Record:
    return Record(owner="o", customer=customer, location=BE, cloudspace_id=space, gpus=slots)


def slot(name: str, vgpu_id: str = "", at: float = 1.0) -> Slot:
    return Slot(name=name, profile_id="p", model="NVIDIA A100", at=at, vgpu_id=vgpu_id)


def listed(desk: Desk, *kubeconfigs: str, tokens: tuple[str, ...] = ()) -> ListReport:
    configs = [word for path in kubeconfigs for word in ("-kubeconfig", path)]
    ran = desk.run("-list", "-location", BE, "-o", "json", *configs, *tokens)
    report = msgspec.json.decode(ran.out, type=ListReport)
    assert report.exit_code == ran.code
    return report


def released(desk: Desk, management: Management, *tokens: str) -> ReleaseReport:
    config = ("-kubeconfig", management.kubeconfig)
    ran = desk.run("-release", "-yes", "-location", BE, "-o", "json", *config, *tokens)
    report = msgspec.json.decode(ran.out, type=ReleaseReport)
    assert report.exit_code == ran.code
    return report


def owners(report: ListReport) -> dict[str, str]:
    return {row.vgpu_id: row.owner for row in report.holdings}


def outcomes(report: ReleaseReport) -> dict[str, str]:
    return {result.vgpu_id: result.outcome for result in report.results}


def test_each_owner_is_told(desk: Desk, management: Management) -> None:
    """Recorded, attempted, attached, foreign, orphan, and a namesake of a machine."""
    at = desk.simulator.control.clock.now() - 2 * HOUR
    recorded, attempted = desk.reserve("capvco-a-gpu-0"), desk.reserve("capvco-b-gpu-0", 1)
    attached, foreign = desk.reserve("by-hand", 2), desk.reserve("render", 3)
    orphan, namesake = desk.reserve(LOST, 4), desk.reserve("capvco-a-gpu-1", 5)
    vm = desk.vm_with(attached)
    management.machine("a", a_record(slot("capvco-a-gpu-0", recorded, at)))
    management.machine("b", a_record(slot("capvco-b-gpu-0")))
    management.machine("c", a_record(space=vm[0]), vm=vm)
    report = listed(desk, management.kubeconfig)
    assert owners(report) == {
        recorded: "live",
        attempted: "live",
        attached: "live",
        foreign: "foreign",
        orphan: "orphan",
        namesake: "unknown",
    }
    rows = {row.vgpu_id: row for row in report.holdings}
    assert rows[recorded].machine == f"{management.namespace}/a"
    assert rows[recorded].age_exact
    assert rows[recorded].age_seconds == pytest.approx(2 * HOUR, abs=60)
    assert report.exit_code == 4
    assert (report.doubts, report.totals.held) == ((), desk.held)
    assert report.kubernetes == (management.cluster.url,)


def test_live_ones_alone_need_no_hand(desk: Desk, management: Management) -> None:
    """Exit code 0, in any namespace, also for a machine that is being deleted."""
    vgpu = desk.reserve("capvco-a-gpu-0")
    management.machine("a", a_record(slot("capvco-a-gpu-0", vgpu)), namespace="default")
    assert listed(desk, management.kubeconfig).exit_code == 0


def test_forbidden_is_a_doubt(desk: Desk, management: Management) -> None:
    """An account without rights sees no machines: that is not none."""
    orphan = desk.reserve(LOST)
    report = listed(desk, management.nobody())
    assert (owners(report), report.exit_code) == ({orphan: "unknown"}, 5)
    assert "does not let us list VCOMachines" in report.doubts[0]


def test_one_readable_namespace_tells_of_its_own_machines_only(
    desk: Desk, management: Management
) -> None:
    """What it has is live; what it has not may be another namespace's."""
    mine, others = desk.reserve("capvco-a-gpu-0"), desk.reserve("capvco-b-gpu-0", 1)
    management.machine("a", a_record(slot("capvco-a-gpu-0", mine)))
    management.machine("b", a_record(slot("capvco-b-gpu-0", others)), namespace="default")
    report = listed(desk, management.reader())
    assert owners(report) == {mine: "live", others: "unknown"}
    assert report.doubts[0].endswith(f"of namespace {management.namespace} only")


def test_a_doubtful_second_cluster_makes_all_doubtful(desk: Desk, management: Management) -> None:
    """Another management cluster of the customer that cannot be read may have it."""
    orphan = desk.reserve(LOST)
    management.machine("a", a_record())
    assert owners(listed(desk, management.kubeconfig)) == {orphan: "orphan"}
    both = listed(desk, management.kubeconfig, management.nobody())
    assert owners(both) == {orphan: "unknown"}


def test_a_cluster_that_does_not_know_our_kinds_is_a_doubt(
    desk: Desk, management: Management
) -> None:
    """A workload cluster, say."""
    orphan = desk.reserve(LOST)
    management.uninstall()
    try:
        report = listed(desk, management.kubeconfig)
    finally:
        management.install()
    assert owners(report) == {orphan: "unknown"}
    assert report.doubts[0].endswith("knows no VCOMachines: is it the management cluster?")


def test_a_cluster_of_another_customer_is_a_doubt(desk: Desk, management: Management) -> None:
    """An empty answer of the wrong cluster is no proof; credentials from it are."""
    orphan = desk.reserve(LOST)
    management.machine("a", a_record(customer="other_2"))
    report = listed(desk, management.kubeconfig)
    assert (owners(report), report.exit_code) == ({orphan: "unknown"}, 5)
    assert f"belongs to the customer {CUSTOMER}" in report.doubts[0]
    management.vco_cluster(a_record())
    assert owners(listed(desk, management.kubeconfig)) == {orphan: "orphan"}


def test_credentials_from_a_secret_are_enough_and_relate_the_cluster(
    desk: Desk, management: Management
) -> None:
    """Nothing in the environment; and an empty management cluster is an answer then."""
    orphan = desk.reserve(LOST)
    env = desk.environment
    secret = management.secret(
        {
            "apiURL": env["VCO_API_URL"],
            "customerID": env["VCO_CUSTOMER_ID"],
            "clientID": env["VCO_CLIENT_ID"],
            "clientSecret": env["VCO_CLIENT_SECRET"],
            "iamURL": env["VCO_IAM_URL"],
        }
    )
    where = ("-secret", secret, "-kubeconfig", management.kubeconfig)
    ran = desk.run("-list", "-location", BE, *where, environment={})
    assert ran.code == 4
    assert orphan in ran.out
    assert desk.run(*where, environment={}).code == 0
    wrong = desk.run("-secret", f"{management.namespace}/nope", *where[2:], environment={})
    assert (wrong.code, wrong.out) == (2, "")


def test_a_record_that_cannot_be_read_makes_all_doubtful(
    desk: Desk, management: Management
) -> None:
    """It might hold anything; and nothing is released then."""
    orphan = desk.reserve(LOST)
    management.machine("a", a_record())
    management.machine("broken", '{"owner": 3}')
    report = released(desk, management, "-min-age", "0s")
    assert (report.results, report.exit_code) == ((), 5)
    assert f"{management.namespace}/broken cannot be read" in report.doubts[0]
    assert desk.held_ids() == {orphan}


def test_orphans_are_released_and_nothing_else(desk: Desk, management: Management) -> None:
    """Old enough by the meter: no wait. The ledger says what is left."""
    mine, foreign = desk.reserve("capvco-a-gpu-0"), desk.reserve("render", 1)
    orphan, binned = desk.reserve(LOST, 2), desk.reserve("capvco-deleted-gpu-1", 3)
    stolen, namesake = desk.reserve("capvco-deleted-gpu-2", 4), desk.reserve("capvco-a-gpu-7", 5)
    desk.bin(binned)
    desk.vm_with(stolen)
    management.machine("a", a_record(slot("capvco-a-gpu-0", mine)))
    desk.simulator.control.clock.advance(3 * HOUR)
    report = released(desk, management)
    assert outcomes(report) == {orphan: "released", binned: "released"}
    assert desk.held_ids() == {mine, foreign, stolen, namesake}
    assert (desk.elapsed, report.exit_code) == (0.0, 5)
    again = released(desk, management)
    assert (again.results, again.totals.held) == ((), desk.held)


def test_a_prefix_narrows_what_is_released(desk: Desk, management: Management) -> None:
    """Of the orphans; never beyond them."""
    one, other = desk.reserve(LOST), desk.reserve("capvco-x-gpu-0", 1)
    management.machine("a", a_record())
    desk.simulator.control.clock.advance(3 * HOUR)
    report = released(desk, management, "-name-prefix", "capvco-x")
    assert outcomes(report) == {other: "released"}
    assert desk.held_ids() == {one}


def test_what_is_of_unproven_age_is_waited_for(desk: Desk, management: Management) -> None:
    """The minimum age has passed since the first look, then there is a second one."""
    young = desk.reserve(LOST)
    management.machine("a", a_record())
    report = released(desk, management, "-min-age", "20m")
    assert outcomes(report) == {young: "released"}
    assert (desk.elapsed, report.exit_code, desk.held) == (1200.0, 0, 0)


def test_what_is_of_unproven_age_is_left_if_not_to_wait(desk: Desk, management: Management) -> None:
    """And said so; the exit code is that of orphans."""
    young = desk.reserve(LOST)
    management.machine("a", a_record())
    report = released(desk, management, "-no-wait")
    assert (outcomes(report), report.exit_code) == ({young: "too-young"}, 4)
    assert (desk.elapsed, desk.held) == (0.0, 1)


def test_a_machine_that_comes_during_the_wait_keeps_its_own(
    desk: Desk, management: Management
) -> None:
    """A restored backup, say: recorded by the second look."""
    restored, lost = desk.reserve("capvco-back-gpu-0"), desk.reserve(LOST, 1)
    management.machine("a", a_record())
    record = a_record(slot("capvco-back-gpu-0", restored))
    desk.while_waiting = lambda: management.machine("back", record)
    report = released(desk, management)
    assert outcomes(report) == {restored: "spared", lost: "released"}
    assert (desk.held_ids(), report.exit_code) == ({restored}, 5)


def test_an_api_server_that_goes_away_during_the_wait_spares_all(
    desk: Desk, management: Management
) -> None:
    """No second look, no release."""
    orphan = desk.reserve(LOST)
    management.machine("a", a_record())
    desk.while_waiting = management.cluster.stop_apiserver
    try:
        report = released(desk, management)
    finally:
        management.cluster.start_apiserver()
    assert (outcomes(report), report.exit_code) == ({orphan: "spared"}, 5)
    assert desk.held == 1


def test_without_a_terminal_nothing_is_released_unasked(desk: Desk, management: Management) -> None:
    """A script has to say --yes."""
    desk.reserve(LOST)
    ran = desk.run("-release", "-location", BE, "-kubeconfig", management.kubeconfig)
    assert (ran.code, ran.out, desk.held) == (2, "", 1)
    assert "give --yes" in ran.err
