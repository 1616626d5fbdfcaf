"""GPUs that cannot be had, or no longer: said once, waited for cheaply, taken when they return."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.envtest.controllers.stage import A100, CREATE_VM, DUMMY, PLENTY, RESERVE, Stage
from tests.support.scenario import IMAGE, LOCATION, condition
from vcosim.control import Action, Match
from vcosim.journal import Logged

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
L4 = {"type": "NVIDIA L4", "count": 1}
VMS = "/customers/{customer_id}/cloudspaces/{cloudspace_id}/vms"
VGPUS = "/customers/{customer_id}/locations/{location}/vgpus"
LIST = "/customers/{customer_id}/locations/{location}/gpus"
INTERVAL = 0.5
"""Seconds of --capacity-interval on the stage."""
LAG = 120.0
"""Seconds for which a list lags, by the simulator's clock, which is moved to end it."""


@pytest.fixture(autouse=True)
def _all_cards(stage: Stage) -> Iterator[None]:
    """Put all cards back into service."""
    yield
    stage.simulator.control.faults.clear()
    for card in stage.simulator.control.cards.list(LOCATION):
        capacity = PLENTY if card.model.startswith("Dummy") else 1
        stage.simulator.control.cards.set(LOCATION, card.id, capacity)


def lists(stage: Stage, after: int) -> list[Logged]:
    """Return the reads of the location's cards since a call."""
    found = stage.simulator.control.calls(method="GET", route=LIST, after=after)
    return [call for call in found if f"/{LOCATION}/" in call.path]


def messages(stage: Stage, name: str) -> list[str]:
    """Return the texts of the Events that tell of a missing GPU."""
    return [text for reason, text in stage.events(name) if reason == "GPUTypeUnavailable"]


def test_many_wait_for_one_card(stage: Stage) -> None:
    """Condition, failureMessage and one Event say what there is; all share one list an interval.

    The card that returns goes to one of them without anyone's hand; the next one after a restart.
    """
    stage.cards_off("L4")
    names = [f"queue-{number}" for number in range(6)]
    for name in names:
        stage.put_machine(name, gpu=L4)
    for name in names:
        message = stage.says(name, "GPUTypeUnavailable")
        offers = '"NVIDIA" (2 card(s), 0 free, e.g. model "L4"), "NVIDIA" (4 card(s), '
        assert offers in message
        status = stage.vco_machine(name)["status"]
        assert status["failureMessage"] == message
        assert status["failureReason"] == "GPUTypeUnavailable"
        assert condition(stage.vco_machine(name), "GPUReserved")["reason"] == "GPUTypeUnavailable"
    before = stage.now()
    stage.until("some intervals", lambda: len(lists(stage, before)) >= 6)
    asked = lists(stage, before)
    seconds = asked[-1].started - asked[0].started
    assert len(asked) - 1 <= 1.2 * seconds / INTERVAL + 1, f"{len(asked)} lists in {seconds:.1f} s"
    assert stage.mutations(after=before) == []
    for route in (VMS, VGPUS):
        assert stage.simulator.control.calls(method="GET", route=route, after=before) == []
    assert [len(messages(stage, name)) for name in names] == [1] * len(names)

    first, second = stage.cards("L4")
    cards = stage.simulator.control.cards
    cards.set(LOCATION, first, 1)
    stage.until("one to be up", lambda: any(map(stage.running, names)))
    stage.restart_manager(lambda: cards.set(LOCATION, second, 1))
    stage.until("two to be up", lambda: sum(map(stage.running, names)) == 2)
    for name in filter(stage.running, names):
        assert "failureMessage" not in stage.vco_machine(name)["status"]
    assert len(stage.bought(*names)) == 2
    stage.down(*names)
    assert stage.holdings(*names) == []


def made_in(stage: Stage, cloudspace: str, after: int) -> list[int]:
    """Return how the requests to make a VM in a cloudspace were answered."""
    found = stage.simulator.control.calls(method="POST", route=VMS, after=after)
    return [call.status for call in found if f"/{cloudspace}/" in call.path]


@pytest.fixture(scope="module")
def small(stage: Stage) -> Iterator[Stage]:
    """Give the stage a second cluster, in whose network there is room for three VMs."""
    stage.put_cluster("small", cloudspace={"privateNetwork": "192.168.50.0/29"})
    stage.until("the cluster", lambda: stage.cluster_ready("small"))
    yield stage
    stage.delete("clusters", "small")
    stage.until("the end of the cluster", lambda: stage.gone("vcoclusters", "small"))


def test_a_network_that_is_full(small: Stage) -> None:
    """Who comes when there is no address buys nothing, asks little, and comes up by turns.

    That many arrive at the same moment, or the manager is another one, makes no difference.
    """
    stage = small
    names = [f"crowd-{number}" for number in range(6)]
    before = stage.now()
    for name in names:
        stage.put_machine(name, cluster="small", gpu=DUMMY)

    def waiting() -> list[str]:
        return [name for name in names if stage.reason(name) == "CloudspaceFull"]

    def settled(up: int, left: int) -> bool:
        return (sum(map(stage.running, names)), len(waiting())) == (up, left)

    stage.until("three to be up", lambda: settled(3, 3))
    late = waiting()
    cloudspace = stage.cloudspace("small")
    for name in late:
        status = stage.vco_machine(name)["status"]
        assert "the network 192.168.50.0/29 of the cloudspace is full" in status["failureMessage"]
        assert "billed" not in status["failureMessage"]
        assert condition(stage.vco_machine(name), "VMProvisioned")["reason"] == "CloudspaceFull"
        assert [reason for reason, _ in stage.events(name)].count("CloudspaceFull") == 1
    idle = stage.now()
    listed = partial(stage.simulator.control.calls, method="GET", route=VMS, after=idle)
    stage.until("some intervals", lambda: len(listed()) >= 8)
    asked = listed()
    seconds = asked[-1].started - asked[0].started
    # Those that wait and those that are well have a list of their own interval each.
    assert len(asked) - 1 <= 1.2 * seconds * (1 / INTERVAL + 1) + 2, (
        f"{len(asked)}: {seconds:.1f} s"
    )
    assert stage.mutations(after=idle) == []

    gone = next(name for name in names if name not in late)
    stage.down(gone)
    stage.until("the next one", lambda: settled(3, 2))
    stage.restart_manager()
    stage.down(next(filter(stage.running, names)))
    stage.until("one more", lambda: settled(3, 1))
    assert stage.bought(*waiting()) == []
    assert made_in(stage, cloudspace, before) == [200] * 5
    stage.down(*(name for name in names if not stage.gone("vcomachines", name)))
    assert stage.holdings(*names) == []


def test_a_network_that_fills_unseen(small: Stage) -> None:
    """Where the list lags, the platform refuses: what is held by then stays held, and says so."""
    control = small.simulator.control
    small.put_machine("early-1", cluster="small", gpu=DUMMY)
    small.up("early-1")
    lag = Action(kind="lag", seconds=LAG, lists=r"/vms$")
    control.faults.add(lag, Match(method="POST", route=CREATE_VM), times=1)
    small.put_machine("early-2", cluster="small", gpu=DUMMY)
    small.up("early-2")
    path = f"/customers/{small.simulator.customer_id}/cloudspaces/{small.cloudspace('small')}/vms"
    size = {"vcpus": 1, "memory": 512, "disk_size": 10, "image_id": IMAGE}
    control.hand.call("POST", path, query={"name": "x", "description": "mine", **size}, body={})
    small.put_machine("unlucky", cluster="small", gpu=DUMMY)
    message = small.says("unlucky", "CloudspaceFull")
    assert "has no room for another virtual machine" in message
    assert "1 vGPU(s) are held and billed meanwhile" in message
    (stranger,) = [vm for vm in control.vms() if vm.name == "x"]
    control.hand.delete_vm(stranger, permanently=True)
    control.clock.advance(LAG)
    small.up("unlucky")
    assert len(small.bought("unlucky")) == 1
    small.down("unlucky", "early-1", "early-2")


def test_spread_over_cards(stage: Stage) -> None:
    """Two vGPUs of one machine come from two cards."""
    stage.put_machine("spread", gpu=A100 | {"count": 2})
    stage.up("spread")
    gpus = stage.vco_machine("spread")["status"]["gpus"]
    assert len({gpu["profileId"] for gpu in gpus}) == 2
    assert {gpu["model"] for gpu in gpus} == {"NVIDIA A100"}
    stage.down("spread")


def test_more_than_there_are(stage: Stage) -> None:
    """The sum is checked before the first is bought."""
    stage.put_machine("greedy", gpu=A100 | {"count": 5})
    assert "no room for 5" in stage.says("greedy", "GPUTypeUnavailable")
    stage.down("greedy")
    assert stage.bought("greedy") == []


@pytest.mark.parametrize("status", [400, 409, 503])
def test_a_card_lost_after_it_was_listed(stage: Stage, status: int) -> None:
    """Somebody takes the card between list and reservation: the next card is taken."""
    control = stage.simulator.control
    control.set(no_capacity_status=status)
    best = min(stage.cards("A100"))
    taken = Action(kind="capacity", location=LOCATION, gpu_id=best, capacity=0)
    control.faults.add(taken, Match(method="POST", route=RESERVE), times=1)
    name = f"beaten-{status}"
    before = stage.now()
    stage.put_machine(name, gpu=A100)
    stage.up(name)
    (gpu,) = stage.vco_machine(name)["status"]["gpus"]
    assert gpu["profileId"] in set(stage.cards("A100")) - {best}
    tries = [c.status for c in stage.mutations(after=before) if c.route.endswith("/{gpu_id}")]
    assert tries == [status, 200]
    stage.down(name)


def test_the_last_card_lost_after_it_was_listed(stage: Stage) -> None:
    """Every card is tried once; then it is said with fresh numbers, and nothing is held."""
    control = stage.simulator.control
    for card in stage.cards("L4"):
        taken = Action(kind="capacity", location=LOCATION, gpu_id=card, capacity=0)
        path = Match(method="POST", path=rf"/gpus/{card}$")
        control.faults.add(taken, path, times=1)
    before = stage.now()
    stage.put_machine("late", gpu=L4)
    assert "0 free" in stage.says("late", "GPUTypeUnavailable")
    tries = [c.path for c in stage.mutations(after=before) if c.route.endswith("/{gpu_id}")]
    assert len(tries) == len(set(tries)) == 2
    assert stage.holdings("late") == []
    stage.down("late")


def test_a_type_that_covers_several_models(stage: Stage) -> None:
    """One is chosen, always the same, and it is said which and how to pin one; or it is refused."""
    stage.put_machine("any", gpu={"type": "nvidia", "count": 1})
    stage.up("any")
    told = 'took "NVIDIA A100"; "NVIDIA L4" also match'
    found = stage.vco_machine("any")
    assert told in condition(found, "GPUReserved")["message"]
    assert found["status"]["gpus"][0]["model"] == "NVIDIA A100"
    assert any(told in text for _, text in stage.events("any"))
    stage.flags["refuse-ambiguous-gpu-types"] = ""
    stage.restart_manager()
    stage.put_machine("refused", gpu={"type": "nvidia", "count": 1})
    message = stage.says("refused", "GPUTypeAmbiguous")
    assert 'covers 2 models in this location: "NVIDIA A100", "NVIDIA L4"' in message
    assert told in condition(stage.vco_machine("any"), "GPUReserved")["message"]
    del stage.flags["refuse-ambiguous-gpu-types"]
    stage.restart_manager()
    stage.up("refused")
    stage.down("any", "refused")


def test_one_exact_card(stage: Stage) -> None:
    """A profile id pins one card; an unknown one is answered with those there are."""
    card = max(stage.cards("A100"))
    stage.put_machine("pinned", gpu={"profileId": card, "count": 1})
    stage.put_machine("mistaken", gpu={"profileId": card[::-1], "count": 1})
    stage.put_machine("crowded", gpu={"profileId": card, "count": 2})
    stage.up("pinned")
    assert [gpu["profileId"] for gpu in stage.vco_machine("pinned")["status"]["gpus"]] == [card]
    message = stage.says("mistaken", "GPUTypeUnavailable")
    assert all(f'"{known}"' in message for known in stage.cards(""))
    assert "no room for 2" in stage.says("crowded", "GPUTypeUnavailable")
    stage.down("pinned", "mistaken", "crowded")


def test_another_location_has_it(stage: Stage) -> None:
    """The message says where; the nearest names come first."""
    stage.put_machine("elsewhere", gpu={"type": "L40S", "count": 1})
    message = stage.says("elsewhere", "GPUTypeUnavailable")
    assert 'nl-rmd-dc01-001 has "NVIDIA" (2 card(s), 2 free, e.g. model "L40S")' in message
    assert message.index('model "L4"') < message.index('model "Dummy GPU"')
    stage.down("elsewhere")


def test_a_card_that_frees_itself(stage: Stage) -> None:
    """The machine of the last card goes, the next one gets it."""
    for card in stage.cards("L4")[1:]:
        stage.simulator.control.cards.set(LOCATION, card, 0)
    stage.put_machine("holder", gpu=L4)
    stage.up("holder")
    stage.put_machine("next", gpu=L4)
    stage.says("next", "GPUTypeUnavailable")
    stage.delete("machines", "holder")
    stage.up("next")
    stage.vanished("holder")
    stage.down("next")
    assert stage.holdings("holder", "next") == []


def test_a_location_that_says_nothing_sensible(stage: Stage) -> None:
    """A page of a proxy, half an answer: never 'no GPUs', and it passes."""
    faults = stage.simulator.control.faults
    html = Action(kind="status", status=502)
    half = Action(kind="truncate", keep=0.4, clean=True)
    for name, action in (("misled", html), ("cut-off", half)):
        rule = faults.add(action, Match(method="GET", route=r"/gpus$"))
        stage.put_machine(name, gpu=DUMMY)
        stage.says(name, "PlatformUnreachable")
        assert "failureMessage" not in stage.vco_machine(name)["status"]
        faults.remove(rule.id)
    stage.up("misled", "cut-off")
    stage.down("misled", "cut-off")
    assert len(stage.bought("misled", "cut-off")) == 2
