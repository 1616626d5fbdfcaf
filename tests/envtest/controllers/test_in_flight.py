"""Deletion while something is being bought: nothing more is, and what comes of it is given back."""

from contextlib import ExitStack

import pytest

from tests.envtest.controllers.stage import ATTACH, CREATE_VM, DUMMY, RESERVE, Stage
from vcosim.control import Action, Match

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
STEPS = {
    "reserving": ("POST", RESERVE),
    "creating": ("POST", CREATE_VM),
    "attaching": ("POST", ATTACH),
    "starting": ("POST", r"/start$"),
}


@pytest.mark.parametrize("committed", [False, True])
def test_deletion_during_each_step(stage: Stage, committed: bool) -> None:
    """A call is in flight, carried out already or not yet, when the Machine is deleted."""
    two = DUMMY | {"count": 2}
    names = {step: f"{step}-{'late' if committed else 'early'}" for step in STEPS}
    with ExitStack() as held:
        for step, (method, route) in STEPS.items():
            arrived = held.enter_context(stage.held_call(method, route, committed=committed))
            stage.put_machine(names[step], gpu=two if step == "reserving" else DUMMY)
            stage.until(f"{names[step]} to be held", arrived)
        for name in names.values():
            stage.delete("machines", name)
        for name in names.values():
            stage.deleting(name)
        before = stage.now()
    stage.vanished(*names.values())
    assert stage.holdings(*names.values()) == []
    assert not set(names.values()) & set(stage.vm_names())
    assert len(stage.bought(names["reserving"])) == 1
    assert stage.vms_ever(names["reserving"]) == 0
    later = [c.route for c in stage.mutations(after=before) if c.method == "POST"]
    assert not [r for r in later if r.endswith(("/gpus/{gpu_id}", "/vms"))]


def test_deletion_after_a_lost_answer(stage: Stage) -> None:
    """What was perhaps bought is waited for, found by its name, and given back."""
    faults = stage.simulator.control.faults
    rules = [
        faults.add(Action(kind="lose_after"), Match(method="POST", route=RESERVE), times=1),
        faults.add(
            Action(kind="lag", calls=3, lists=r"/vgpus$"), Match(method="POST", route=RESERVE)
        ),
        # Found before the deletion or after it, it comes to the same.
        faults.add(Action(kind="lose_before"), Match(method="POST", route=CREATE_VM)),
    ]
    stage.put_machine("unheard", gpu=DUMMY)
    stage.until("the reservation", lambda: stage.bought("unheard"))
    stage.down("unheard")
    assert len(stage.bought("unheard")) == 1
    assert stage.holdings("unheard") == []
    for rule in rules:
        faults.remove(rule.id)


def test_deletion_before_a_lost_vm_appears(stage: Stage) -> None:
    """The answer to the VM's creation is lost and the list lags: deleted as soon as it shows."""
    faults = stage.simulator.control.faults
    creation = Match(method="POST", route=CREATE_VM)
    rules = [
        faults.add(Action(kind="lose_after"), creation, times=1),
        faults.add(Action(kind="lag", seconds=1.0, lists=r"/vms$"), creation, times=1),
    ]
    stage.put_machine("unseen", gpu=DUMMY)
    stage.until("the VM", lambda: stage.vm("unseen"))
    stage.down("unseen")
    assert "unseen" not in stage.vm_names()
    assert stage.vms_ever("unseen") == 1
    assert stage.holdings("unseen") == []
    for rule in rules:
        faults.remove(rule.id)


def test_a_vm_that_is_refused_again_and_again(stage: Stage) -> None:
    """Each attempt uses the reservations that the first one had; none is left after deletion."""
    busy = Action(kind="status", status=409, html=False)
    rule = stage.simulator.control.faults.add(busy, Match(method="POST", route=CREATE_VM))
    stage.put_machine("refused", gpu=DUMMY | {"count": 2})

    def attempts() -> int:
        faults = stage.simulator.control.faults.list()
        return sum(one.fired for one in faults if one.rule.id == rule.id)

    stage.until("five attempts", lambda: attempts() >= 5)
    assert len(stage.bought("refused")) == 2
    shown = {gpu["vgpuId"] for gpu in stage.vco_machine("refused")["status"]["gpus"]}
    assert shown == {row.vgpu_id for row in stage.holdings("refused")}
    stage.down("refused")
    assert len(stage.bought("refused")) == 2
    assert stage.holdings("refused") == []
    stage.simulator.control.faults.remove(rule.id)
