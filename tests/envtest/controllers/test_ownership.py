"""What is ours and what is not: strangers of the same name, equal machines, lists that lag."""

from pathlib import Path

import pytest

from tests.envtest.controllers.stage import CREATE_VM, DUMMY, RESERVE, Stage
from tests.support.scenario import LOCATION, Scenario
from vcosim.control import Action, Match

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def a_vm_by_hand(stage: Stage, name: str) -> None:
    """Make a VM that no program knows of in the cluster's cloudspace."""
    query: dict[str, str | int | bool] = {
        "name": name,
        "description": "mine",
        "image_id": 201,
        "vcpus": 1,
        "memory": 512,
        "disk_size": 10,
        "start_vm": False,
    }
    path = f"/customers/{stage.simulator.customer_id}/cloudspaces/{stage.cloudspace()}/vms"
    stage.simulator.control.hand.call("POST", path, query=query, body={})


def test_a_strangers_vgpu(stage: Stage) -> None:
    """It has the name that we would use: ours gets a distinct one, and it is never touched."""
    control = stage.simulator.control
    card = stage.cards("Dummy GPU")[0]
    name = "capvco-beside-gpu-0"
    foreign = control.hand.add_vgpu(stage.simulator.customer_id, LOCATION, card, name)
    stage.put_machine("beside", gpu=DUMMY)
    stage.up("beside")
    (gpu,) = stage.vco_machine("beside")["status"]["gpus"]
    assert gpu["vgpuId"] != foreign
    assert gpu["name"].startswith(f"{name}-")
    stage.down("beside")
    assert [row.vgpu_id for row in stage.holdings("beside")] == [foreign]
    assert not [call for call in stage.mutations() if foreign in call.path]


def test_a_strangers_vm(stage: Stage) -> None:
    """It has our name, alive or in the bin: a condition says so, nothing is bought or touched."""
    hand = stage.simulator.control.hand
    for name in ("taken", "taken-bin", "freed"):
        a_vm_by_hand(stage, name)
    binned = stage.vm("taken-bin")
    assert binned
    hand.delete_vm(binned)
    for name in ("taken", "taken-bin", "freed"):
        stage.put_machine(name, gpu=DUMMY)
    assert "in the cloudspace" in stage.says("taken", "VMNameTaken")
    assert "recycle bin" in stage.says("taken-bin", "VMNameTaken")
    stage.says("freed", "VMNameTaken")
    assert stage.bought("taken", "freed") == []
    freed = stage.vm("freed")
    assert freed
    hand.delete_vm(freed, permanently=True)
    stage.up("freed")
    stage.down("taken", "taken-bin", "freed")
    left = {vm.name: vm.description for vm in stage.simulator.control.vms()}
    assert left["taken"] == left["taken-bin"] == "mine"
    assert "freed" not in left


def test_a_stranger_in_the_place_of_ours(stage: Stage) -> None:
    """Our VM was deleted and somebody made one of its name: deletion frees ours, not theirs."""
    stage.put_machine("replaced", gpu=DUMMY)
    stage.up("replaced")
    ours = stage.vm("replaced")
    assert ours
    stage.simulator.control.hand.delete_vm(ours, permanently=True, detach_gpu=True)
    a_vm_by_hand(stage, "replaced")
    stage.says("replaced", "VMNameTaken")
    stage.down("replaced")
    assert stage.holdings("replaced") == []
    theirs = stage.vm("replaced")
    assert theirs
    assert theirs.description == "mine"


def test_our_vgpu_on_a_strangers_vm(stage: Stage) -> None:
    """Somebody attached it to a VM of theirs: it is said, and neither detached nor released."""
    a_vm_by_hand(stage, "thief")
    thief = stage.vm("thief")
    assert thief
    hand = stage.simulator.control.hand
    with stage.held_call("POST", CREATE_VM) as arrived:
        stage.put_machine("stolen", gpu=DUMMY)
        stage.until("the VM to be asked for", arrived)
        (row,) = stage.holdings("stolen")
        vms = f"/customers/{row.customer}/cloudspaces/{thief.parent}/vms"
        hand.call("POST", f"{vms}/{thief.id}/vgpus/{row.vgpu_id}")
    assert "attached to the VM thief" in stage.says("stolen", "GPUReservationLost")
    stage.delete("machines", "stolen")
    stage.mentions("stolen", "detach it there, then it is released")
    assert len(stage.holdings("stolen")) == 1
    assert stage.vm("stolen") is None
    hand.call("DELETE", f"{vms}/{thief.id}/vgpus/{row.vgpu_id}")
    stage.vanished("stolen")
    assert stage.holdings("stolen") == []
    hand.delete_vm(thief, permanently=True)


def test_equal_names_in_two_namespaces(stage: Stage, tmp_path: Path) -> None:
    """Neither takes, uses or releases what is the other's; a shared cloudspace has one of them."""
    stage.put_machine("twin", gpu=DUMMY)
    stage.up("twin")
    with Scenario.open(stage.cluster, stage.simulator, tmp_path) as second:
        second.start_manager()
        second.put_cluster("demo")
        endpoint = {"host": "api.example.test", "port": 6443}
        place = {"id": stage.cloudspace()}
        second.put_cluster("shared", cloudspace=place, controlPlaneEndpoint=endpoint)
        second.put_cluster("greedy", cloudspace=place)
        second.put_machine("twin", gpu=DUMMY)
        second.until("the other twin", lambda: second.running("twin"))
        (ours,) = stage.vco_machine("twin")["status"]["gpus"]
        (theirs,) = second.vco_machine("twin")["status"]["gpus"]
        assert theirs["name"].startswith(f"{ours['name']}-")
        assert len(stage.holdings("twin")) == 2
        stage.down("twin")
        assert [row.vgpu_id for row in stage.holdings("twin")] == [theirs["vgpuId"]]

        stage.put_machine("guest", gpu=DUMMY)
        stage.up("guest")
        second.until(
            "the port to be taken",
            lambda: "spec.controlPlaneEndpoint" in str(second.get("vcoclusters", "greedy")),
        )
        second.put_machine("guest", "shared", gpu=DUMMY)
        second.until(
            "the name to be taken",
            lambda: "VMNameTaken" in str(second.vco_machine("guest").get("status", {})),
        )
        assert len(stage.holdings("guest")) == 1
        stage.down("guest")
        second.until("the other guest", lambda: second.running("guest"))
        clusters = ("demo", "shared", "greedy")
        for name in clusters:
            second.delete("clusters", name)
        second.until(
            "the clusters gone", lambda: all(second.gone("vcoclusters", name) for name in clusters)
        )
    assert stage.holdings("twin", "guest") == []
    assert stage.cluster_ready()
    assert stage.cloudspace() in {c["id"] for c in stage.simulator.control.state()["cloudspace"]}


def test_lost_answers_and_lagging_lists(stage: Stage) -> None:
    """The list shows what happened some calls later: it is waited for, and bought once."""
    faults = stage.simulator.control.faults
    creation = Match(method="POST", route=RESERVE)
    rules = [
        faults.add(Action(kind="lose_after"), creation, times=2),
        faults.add(Action(kind="lag", seconds=0.8, lists=r"/vgpus$"), creation, times=2),
    ]
    stage.put_machine("patient", gpu=DUMMY | {"count": 2})
    stage.up("patient")
    for rule in rules:
        faults.remove(rule.id)
    assert len(stage.bought("patient")) == 2
    assert {row.vgpu_id for row in stage.holdings("patient")} == {
        gpu["vgpuId"] for gpu in stage.vco_machine("patient")["status"]["gpus"]
    }
    stage.down("patient")


def test_a_twin_that_appears_late(stage: Stage) -> None:
    """The list shows it after the settle time: by then there is another, and the twin goes."""
    faults = stage.simulator.control.faults
    creation = Match(method="POST", route=RESERVE)
    rules = [
        faults.add(Action(kind="lose_after"), creation, times=1),
        faults.add(Action(kind="lag", seconds=4.0, lists=r"/vgpus$"), creation, times=1),
    ]
    stage.put_machine("doubled", gpu=DUMMY)
    stage.until("the second reservation", lambda: len(stage.bought("doubled")) == 2)
    for rule in rules:
        faults.remove(rule.id)
    stage.up("doubled")
    stage.until("the twin to be released", lambda: len(stage.holdings("doubled")) == 1)
    (gpu,) = stage.vco_machine("doubled")["status"]["gpus"]
    assert [row.vgpu_id for row in stage.holdings("doubled")] == [gpu["vgpuId"]]
    assert gpu["attached"] is True
    stage.down("doubled")
    assert stage.holdings("doubled") == []


def test_many_pages(stage: Stage) -> None:
    """Ours is found behind pages full of others', however small a page is."""
    control = stage.simulator.control
    card = stage.cards("Dummy GPU")[0]
    for number in range(7):
        control.hand.add_vgpu(stage.simulator.customer_id, LOCATION, card, f"other-{number}")
    control.set(page_cap=3)
    stage.put_machine("paged", gpu=DUMMY | {"count": 2})
    stage.up("paged")
    stage.down("paged")
    control.set(page_cap=0)
    assert len(stage.bought("paged")) == 2
    assert stage.holdings("paged") == []
    assert len([row for row in stage.holdings() if row.name.startswith("other-")]) == 7
