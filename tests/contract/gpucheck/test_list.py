"""What is held, by the command, from the simulator; Kubernetes is not asked, or is not there."""

import io
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml

from capvco.cli.gpucheck.kubernetes import Management
from capvco.cli.gpucheck.options import Options
from capvco.cli.gpucheck.owners import Knowledge
from capvco.cli.gpucheck.reports import ListReport
from capvco.cli.gpucheck.screen import Screen
from capvco.cli.gpucheck.session import Session, World
from capvco.vco.cloud import VCO
from tests.contract.gpucheck.conftest import Desk
from vcosim.control import Action, Match
from vcosim.stock import BE, NL

OURS = "capvco-worker-1-gpu-0"
ALONE = "--no-kubernetes"


def listed(desk: Desk, *tokens: str) -> ListReport:
    ran = desk.run("-list", "-o", "json", *tokens)
    report = msgspec.json.decode(ran.out, type=ListReport)
    assert report.exit_code == ran.code
    return report


def test_nothing_held_is_said_in_words(desk: Desk) -> None:
    """And needs no hand."""
    ran = desk.run("-list", ALONE, "-location", BE)
    assert ran.code == 0
    assert "no reservations" in ran.out
    assert f"holds 0 reservation(s) in {BE}" in ran.out


def test_every_row_has_id_name_model_vm_and_bin(desk: Desk) -> None:
    """Attached, loose and binned ones, in all locations; the totals agree with the ledger."""
    attached, loose = desk.reserve("render"), desk.reserve(OURS, 1)
    binned, far = desk.reserve("old", 2), desk.reserve("far", location=NL)
    space, vm_id = desk.vm_with(attached)
    desk.bin(binned)
    report = listed(desk, ALONE)
    rows = {row.vgpu_id: row for row in report.holdings}
    assert rows.keys() == {attached, loose, binned, far} == desk.held_ids()
    vm = rows[attached].vm
    assert vm
    assert (vm.id, vm.name, vm.cloudspace_id) == (vm_id, "box", space)
    assert (rows[loose].name, rows[loose].model, rows[loose].vm) == (OURS, "NVIDIA A100", None)
    assert [rows[i].in_bin for i in (attached, loose, binned, far)] == [False, False, True, False]
    assert rows[far].location == NL
    assert report.totals.held == desk.held == 4
    assert (report.totals.attached, report.totals.in_bin) == (1, 1)


def test_a_vgpu_that_went_to_the_bin_with_its_vm_is_still_listed_and_attached(desk: Desk) -> None:
    """It is billed, and restoring the VM brings it back."""
    vgpu = desk.reserve(OURS)
    desk.vm_with(vgpu)
    (vm,) = desk.simulator.control.vms()
    desk.simulator.control.hand.delete_vm(vm)
    (row,) = listed(desk, ALONE).holdings
    assert (row.vgpu_id, row.in_bin) == (vgpu, True)
    assert row.vm
    assert desk.held == 1


def test_without_kubernetes_only_what_is_named_by_capvco_is_of_unknown_owner(desk: Desk) -> None:
    """Foreign is foreign by its name; the rest has its own exit code."""
    desk.reserve("render")
    assert desk.run("-list", ALONE).code == 0
    desk.reserve(OURS, 1)
    report = listed(desk, ALONE)
    assert {row.name: row.owner for row in report.holdings} == {
        "render": "foreign",
        OURS: "unknown",
    }
    assert (report.exit_code, report.doubts) == (5, ("Kubernetes was not asked (--no-kubernetes)",))


def test_a_prefix_narrows_what_is_shown_not_what_is_held(desk: Desk) -> None:
    """The line of totals is about all that is billed."""
    desk.reserve("render")
    desk.reserve(OURS, 1)
    report = listed(desk, ALONE, "-name-prefix", "capvco-")
    assert [row.name for row in report.holdings] == [OURS]
    assert (report.totals.held, report.totals.shown) == (2, 1)


def test_other_customers_stay_out_of_sight(desk: Desk) -> None:
    """They have cards of the same location."""
    hand = desk.simulator.control.hand
    card = desk.simulator.control.cards.list(BE)[0].id
    path = f"/customers/other_2/locations/{BE}/gpus/{card}"
    hand.call("POST", path, body={"vgpu_name": OURS}, client_id="other")
    assert listed(desk, ALONE).holdings == ()


def test_all_pages_are_read(desk: Desk) -> None:
    """Also where the server gives two at a time."""
    desk.simulator.control.set(page_cap=2)
    for card in range(7):
        desk.reserve(f"render-{card}", card)
    desk.bin(desk.held_ids().pop())
    report = listed(desk, ALONE)
    assert {row.vgpu_id for row in report.holdings} == desk.held_ids()
    assert report.totals.held == desk.held == 7


@pytest.mark.parametrize("form", ["null", "empty", "null-id"])
def test_unattached_in_all_its_forms(desk: Desk, form: str) -> None:
    """No VM is no VM."""
    desk.simulator.control.set(unattached_vm=form)
    desk.reserve(OURS)
    assert [row.vm for row in listed(desk, ALONE).holdings] == [None]


@pytest.mark.parametrize(
    "action",
    [
        Action(kind="status", status=500),
        Action(kind="status", status=502, html=True),
        Action(kind="truncate", keep=0.7),
        Action(kind="lose_after"),
    ],
)
@pytest.mark.parametrize("route", ["/vgpus$", "/gpus$"])
def test_a_list_that_is_not_whole_is_an_error_never_an_empty_table(
    desk: Desk, action: Action, route: str
) -> None:
    """The location's cause is named, the other locations are shown."""
    desk.reserve(OURS)
    desk.reserve("far", location=NL)
    desk.simulator.control.faults.add(action, Match(method="GET", route=route, path=f"/{BE}/"))
    ran = desk.run("-list", ALONE)
    assert ran.code == 1
    assert f"error: {BE}: GET " in ran.err
    assert "far" in ran.out
    assert f"holds 1 reservation(s) in {NL}," in ran.out


def test_a_location_that_no_longer_offers_the_card_still_shows_the_holding(desk: Desk) -> None:
    """By the description that it was reserved under."""
    desk.reserve(OURS)
    card = desk.simulator.control.cards.list(BE)[0]
    desk.simulator.control.cards.set(BE, card.id, 0)
    assert [row.model for row in listed(desk, ALONE).holdings] == ["NVIDIA A100"]


def kubeconfig(path: Path, server: str) -> Path:
    """Write a kubeconfig of a server that nobody has."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "hush"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_closed_port_is_a_doubt_with_its_own_exit_code(desk: Desk, tmp_path: Path) -> None:
    """Not an answer that nobody has it."""
    desk.reserve(OURS)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        server = f"http://127.0.0.1:{probe.getsockname()[1]}"
    config = kubeconfig(tmp_path / "closed", server)
    report = listed(desk, "-kubeconfig", str(config))
    assert [row.owner for row in report.holdings] == ["unknown"]
    assert report.exit_code == 5
    assert report.doubts[0].startswith(f"{server} could not be asked: ")


def test_something_that_is_no_api_server_is_a_doubt(desk: Desk, tmp_path: Path) -> None:
    """Here, the identity provider."""
    desk.reserve(OURS)
    config = kubeconfig(tmp_path / "odd", desk.simulator.iam_url)
    report = listed(desk, "-kubeconfig", str(config))
    assert [row.owner for row in report.holdings] == ["unknown"]
    assert len(report.doubts) == 1


def test_no_kubeconfig_is_a_doubt_and_a_wrong_one_a_usage_error(desk: Desk, tmp_path: Path) -> None:
    """Kubernetes is not needed; but what is named has to be there."""
    desk.reserve(OURS)
    report = listed(desk)
    assert (report.exit_code, report.kubernetes) == (5, ())
    assert report.doubts[0].startswith("Kubernetes was not asked: no usable kubeconfig in ")
    ran = desk.run("-list", "-kubeconfig", str(tmp_path / "missing"))
    assert (ran.code, ran.out) == (2, "")
    assert str(tmp_path / "missing") in ran.err


def test_an_unreadable_secret_is_a_usage_error(desk: Desk, tmp_path: Path) -> None:
    """The credentials cannot be had."""
    config = kubeconfig(tmp_path / "closed", desk.simulator.iam_url)
    ran = desk.run("-secret", "default/vco", "-kubeconfig", str(config))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("capvco-gpucheck: the Secret default/vco of http")


@dataclass(frozen=True, kw_only=True)
class Busy(Management):
    """Kubernetes, while a controller reserves: the intent is not in the answer yet."""

    desk: Desk

    async def look(self) -> Knowledge:
        self.desk.reserve("capvco-new-gpu-0", 1)
        return Knowledge()


async def test_what_is_reserved_while_kubernetes_answers_is_no_orphan(desk: Desk, vco: VCO) -> None:
    """The platform is listed before those are asked who may claim what it lists."""
    old = desk.reserve(OURS)
    management = Busy((), desk.simulator.customer_id, desk=desk)
    session = Session(
        options=Options(list_=True),
        world=World(environment={}),
        screen=Screen(io.StringIO(), io.StringIO(), io.StringIO()),
        vco=vco,
        management=management,
        locations=(BE,),
    )
    report = await session.report()
    assert isinstance(report, ListReport)
    assert {row.vgpu_id: row.owner for row in report.holdings} == {old: "orphan"}
