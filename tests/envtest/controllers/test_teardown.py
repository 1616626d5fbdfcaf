"""Deletion, whatever a person did to the cloud or to Kubernetes before: all is released."""

from collections.abc import Iterator

import pytest

from tests.envtest.controllers.stage import DUMMY, Stage
from vcosim.control import Action, Match
from vcosim.records import Vm

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _quick_again(stage: Stage) -> Iterator[None]:
    """Leave the cloud as quick and as talkative as it was."""
    before = stage.simulator.control.switches()
    yield
    stage.simulator.control.set(**before)


def own_vm(stage: Stage, name: str) -> Vm:
    """Return the VM that a machine must have."""
    vm = stage.vm(name)
    assert vm is not None
    return vm


def test_a_machine_that_never_got_anything(stage: Stage) -> None:
    """Nothing was bought, so there is nothing to ask the cloud for."""
    stage.put_machine("never", gpu={"type": "no such thing", "count": 1})
    stage.says("never", "GPUTypeUnavailable")
    before = stage.now()
    stage.down("never")
    assert stage.mutations(after=before) == []
    assert stage.bought("never") == []


def test_a_vm_that_was_deleted_by_hand(stage: Stage) -> None:
    """For good, or into the bin with its vGPU: it is reported, not replaced, and all is freed."""
    stage.put_machine("purged", gpu=DUMMY)
    stage.put_machine("binned", gpu=DUMMY)
    stage.up("purged", "binned")
    hand = stage.simulator.control.hand
    hand.delete_vm(own_vm(stage, "purged"), permanently=True, detach_gpu=True)
    hand.delete_vm(own_vm(stage, "binned"))
    for name in ("purged", "binned"):
        assert "no second one is made" in stage.says(name, "VMGone")
    assert len(stage.holdings("purged", "binned")) == 2
    stage.down("purged", "binned")
    assert stage.holdings("purged", "binned") == []
    assert [stage.vms_ever(name) for name in ("purged", "binned")] == [1, 1]
    assert not {"purged", "binned"} & set(stage.vm_names())


def test_a_reservation_that_is_gone_already(stage: Stage) -> None:
    """404 on release is released."""
    stage.put_machine("empty", gpu=DUMMY)
    stage.up("empty")
    control = stage.simulator.control
    control.hand.delete_vm(own_vm(stage, "empty"), permanently=True, detach_gpu=True)
    (row,) = stage.holdings("empty")
    control.hand.delete_vgpu(row.customer, row.location, row.vgpu_id, permanently=True)
    before = stage.now()
    stage.down("empty")
    answers = [c.status for c in stage.mutations(after=before) if row.vgpu_id in c.path]
    assert answers == [404]


def test_the_cloudspace_is_gone(stage: Stage) -> None:
    """404 for all below it: the VM is gone, the vGPU in the location is not, and is released."""
    stage.put_cluster("doomed")
    stage.put_machine("roofless", "doomed", gpu=DUMMY)
    stage.up("roofless")
    hand, vm = stage.simulator.control.hand, own_vm(stage, "roofless")
    hand.delete_vm(vm, permanently=True, detach_gpu=True)
    space = f"/customers/{stage.simulator.customer_id}/cloudspaces/{vm.parent}"
    hand.call("DELETE", space, query={"permanently": True})
    assert len(stage.holdings("roofless")) == 1
    stage.delete("clusters", "doomed")
    stage.vanished("roofless")
    assert stage.holdings("roofless") == []
    stage.until("the cluster gone", lambda: stage.gone("clusters", "doomed"))


def test_a_vm_that_does_not_hold_still(stage: Stage) -> None:
    """However the cloud says busy, it is waited for; the reason stays Deleting, not a failure."""
    stage.put_machine("restless", gpu=DUMMY)
    stage.up("restless")
    control, vm = stage.simulator.control, own_vm(stage, "restless")
    control.set(replies="early", start_seconds=600.0)
    path = f"/customers/{stage.simulator.customer_id}/cloudspaces/{vm.parent}/vms/{vm.id}"
    control.hand.call("POST", f"{path}/reboot")
    stage.delete("machines", "restless")
    for status in (409, 423, 400):
        control.set(busy_status=status)
        stage.mentions("restless", f"answered {status}")
        assert stage.reason("restless") == "Deleting"
        assert "failureMessage" not in stage.vco_machine("restless")["status"]
    assert len(stage.holdings("restless")) == 1
    control.clock.advance(600)
    stage.vanished("restless")
    assert stage.holdings("restless") == []


def test_a_vgpu_that_does_not_hold_still(stage: Stage) -> None:
    """The same for a vGPU that somebody is deleting."""
    stage.put_machine("clingy", gpu=DUMMY)
    stage.up("clingy")
    control = stage.simulator.control
    control.hand.delete_vm(own_vm(stage, "clingy"), permanently=True, detach_gpu=True)
    (row,) = stage.holdings("clingy")
    control.set(replies="early", vgpu_delete_seconds=600.0)
    control.hand.delete_vgpu(row.customer, row.location, row.vgpu_id)
    stage.delete("machines", "clingy")
    for status in (409, 423, 400):
        control.set(busy_status=status)
        stage.mentions("clingy", f"answered {status}")
        assert stage.reason("clingy") == "Deleting"
    control.set(vgpu_delete_seconds=0.02)
    control.clock.advance(600)
    stage.vanished("clingy")
    assert stage.holdings("clingy") == []


def test_no_answer_is_not_absence(stage: Stage) -> None:
    """While the lists are not answered properly nothing counts as gone, and nothing is let go."""
    faults = stage.simulator.control.faults
    stage.put_machine("doubted", gpu=DUMMY)
    stage.up("doubted")
    page = Action(kind="status", status=502)
    rule = faults.add(page, Match(method="GET", route=r"/vgpus$|/vms$|/vms/"))
    stage.delete("machines", "doubted")
    stage.says("doubted", "PlatformUnreachable")
    assert not stage.gone("vcomachines", "doubted")
    faults.remove(rule.id)
    stage.vanished("doubted")
    assert stage.holdings("doubted") == []


def test_the_first_thing_a_new_manager_sees(stage: Stage) -> None:
    """Deletion, with the status empty, the VM in the bin, or every parent gone: all is released."""
    stage.put_cluster("lost")
    stage.put_machine("wiped", gpu=DUMMY)
    stage.put_machine("tossed", gpu=DUMMY)
    stage.put_machine("heir", "lost", gpu=DUMMY)
    stage.up("wiped", "tossed", "heir")

    def meanwhile() -> None:
        for name in ("wiped", "tossed", "heir"):
            stage.wipe_status(name)
        stage.simulator.control.hand.delete_vm(own_vm(stage, "tossed"))
        for plural, name in (("machines", "heir"), ("clusters", "lost"), ("vcoclusters", "lost")):
            stage.delete(plural, name)
            stage.strip(plural, name)
        for name in ("wiped", "tossed"):
            stage.delete("machines", name)
        for name in ("wiped", "tossed", "heir"):
            stage.deleting(name)
        assert all(stage.gone(plural, "lost") for plural in ("clusters", "vcoclusters"))

    stage.restart_manager(meanwhile)
    stage.vanished("wiped", "tossed", "heir")
    assert stage.holdings("wiped", "tossed", "heir") == []
    assert not {"wiped", "tossed", "heir"} & set(stage.vm_names())
    assert len(stage.bought("wiped", "tossed", "heir")) == 3


def test_the_next_machine_of_the_same_name(stage: Stage) -> None:
    """It comes when the old one is released, and holds a reservation of its own."""
    stage.put_machine("again", gpu=DUMMY)
    stage.up("again")
    (old,) = stage.holdings("again")
    with stage.held_call("DELETE", r"/vgpus/[{]vgpu_id[}]$") as arrived:
        stage.delete("machines", "again")
        stage.until("the release to begin", arrived)
        was = stage.vco_machine("again")["metadata"]["uid"]
        stage.put_machine("again", gpu=DUMMY)
        assert stage.vco_machine("again")["metadata"]["uid"] == was
    stage.vanished("again")
    stage.until("the old Machine gone", lambda: stage.gone("machines", "again"))
    stage.put_machine("again", gpu=DUMMY)
    stage.up("again")
    (new,) = stage.holdings("again")
    assert new.vgpu_id != old.vgpu_id
    assert new.name == old.name
    stage.down("again")
    assert stage.holdings("again") == []
