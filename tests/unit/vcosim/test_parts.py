"""The parts below the API: clock, switches, fault rules, store, worlds."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vcosim.portal import BE, C, L, Portal
from vcosim import faults, world
from vcosim.clock import Clock
from vcosim.cloud import cloudspace_id, location_of
from vcosim.faults import Action, Armed, Match, Rule, When
from vcosim.journal import Filter, Visit
from vcosim.records import Location, Step, Vgpu, Vm
from vcosim.reply import RefusedError
from vcosim.simulation import Simulation
from vcosim.store import Store
from vcosim.switches import HELP, Switches, changed, parsed


async def test_a_manual_clock_wakes_who_waits_for_its_moment() -> None:
    """Not before, and without real time passing."""
    clock = Clock("manual", 1000.0)
    waiting = asyncio.create_task(clock.until(1010.0))
    await asyncio.sleep(0)
    clock.advance(9)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1)
    await asyncio.wait_for(waiting, 5)
    assert clock.now() == 1010.0
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


async def test_a_real_clock_can_be_moved_ahead_and_stopped() -> None:
    """Waiting for tomorrow ends when tomorrow is made today, or when the clock stops."""
    clock = Clock()
    tomorrow = clock.now() + 86400
    waiting = asyncio.create_task(clock.until(tomorrow))
    await asyncio.sleep(0)
    clock.advance(86401)
    await asyncio.wait_for(waiting, 5)
    forever = asyncio.create_task(clock.until(tomorrow * 2))
    await asyncio.sleep(0)
    clock.stop()
    await asyncio.wait_for(forever, 5)


def test_every_switch_has_its_help_and_reads_texts() -> None:
    """Texts from a command line become the switch's type."""
    assert list(HELP) == list(Switches.__struct_fields__)
    texts = parsed(["page_cap=7", "attach_needs_halted=off", "replies=early", "stop_seconds=1.5"])
    made = changed(Switches(), texts)
    assert made.page_cap == 7
    assert made.attach_needs_halted is False
    assert (made.replies, made.stop_seconds) == ("early", 1.5)


WRONG = [
    ({"nope": 1}, "no switch 'nope'; there are: absent_fields"),
    ({"replies": "later"}, "replies: blocking or early"),
    ({"page_cap": "many"}, "page_cap: a int"),
    ({"no_capacity_status": "418"}, "400 or 409 or 503"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_a_wrong_switch_is_explained(values: dict[str, object], message: str) -> None:
    """The message names the switch and what it takes."""
    with pytest.raises(ValueError, match=message):
        changed(Switches(), values)
    with pytest.raises(ValueError, match="is not name=value"):
        parsed(["page_cap"])


def visit(number: int = 0, method: str = "GET", route: str = "/a/{id}") -> Visit:
    return Visit(seq=1, mutating=number, method=method, route=route, path="/a/1", client="demo")


MATCHES = [
    (Match(), True),
    (Match(method="GET|PUT"), True),
    (Match(method="GE"), False),
    (Match(route=r"/\{id\}$"), True),
    (Match(route="^/b"), False),
    (Match(path="/1$"), True),
    (Match(client="other"), False),
    (Match(mutating=True), False),
    (Match(mutating=False), True),
]


@pytest.mark.parametrize(("match", "fits"), MATCHES)
def test_rules_match_calls(match: Match, fits: bool) -> None:
    """Method in whole, route and path by search, client by name."""
    assert match.fits(visit()) is fits


def strikes(when: When, times: int = 0, calls: int = 12) -> list[int]:
    armed = [Armed(rule=Rule(action=Action(kind="slow"), when=when, times=times))]
    struck = []
    for number in range(1, calls + 1):
        armed, actions = faults.take(armed, visit(number, "POST"))
        if actions:
            struck.append(number)
    return struck


def test_rules_strike_when_told() -> None:
    """Once, every so often, at most so often, by a seed, or at a mutating call of all."""
    assert strikes(When(nth=3)) == [3]
    assert strikes(When(every=5)) == [5, 10]
    assert strikes(When(), times=2) == [1, 2]
    assert strikes(When(mutating_nth=7)) == [7]
    drawn = strikes(When(probability=0.5, seed=1))
    assert drawn == strikes(When(probability=0.5, seed=1))
    assert 0 < len(drawn) < 12
    assert drawn != strikes(When(probability=0.5, seed=2))


BROKEN = [
    (Rule(action=Action(kind="slow"), match=Match(route="(")), "no regular expression"),
    (Rule(action=Action(kind="lag", lists="[")), "no regular expression"),
    (Rule(action=Action(kind="slow"), when=When(probability=2)), "probability"),
    (Rule(action=Action(kind="truncate", keep=2)), "keep"),
    (Rule(action=Action(kind="capacity")), "location and gpu_id"),
    (Rule(action=Action(kind="partial")), "location"),
]


@pytest.mark.parametrize(("rule", "message"), BROKEN)
def test_a_rule_that_makes_no_sense_is_refused(rule: Rule, message: str) -> None:
    """When it is added, not when it should act."""
    with pytest.raises(ValueError, match=message):
        faults.checked(rule)


@given(st.text("abc-0123456789", min_size=1), st.integers(0, 10**6))
def test_cloudspace_ids_tell_their_location(location: str, number: int) -> None:
    """Unpadded, URL-safe, and back again."""
    key = cloudspace_id(location, number)
    assert "=" not in key
    assert "/" not in key
    assert location_of(key) == location


@pytest.mark.parametrize("key", ["x", "nonsense", "ä", "YWJj"])
def test_other_ids_are_bad_requests(key: str) -> None:
    """What does not decode is 400, not 404."""
    with pytest.raises(RefusedError, match="Invalid cloudspace id"):
        location_of(key)


def _put_and_fail(store: Store) -> None:
    store.put(Location(id="new"))
    raise TypeError


def test_a_store_keeps_order_filters_and_rolls_back(tmp_path: Path) -> None:
    """Updating keeps a record's place; a failed transaction leaves no trace; files last."""
    store = Store(str(tmp_path / "db"))
    for number in (1, 2, 3):
        store.put(Vgpu(id=str(number), location="l", parent="c", name="n", link=f"vm{number % 2}"))
    store.put(Vgpu(id="1", location="l", parent="c", name="changed", binned=5.0))
    assert [one.id for one in store.find(Vgpu, parent="c")] == ["1", "2", "3"]
    assert [one.id for one in store.find(Vgpu, binned=False, link="vm0")] == ["2"]
    assert [one.id for one in store.find(Vgpu, limit=1, offset=1)] == ["2"]
    assert store.count(Vgpu, binned=True) == 1
    with pytest.raises(TypeError), store.transaction():
        _put_and_fail(store)
    assert store.get(Location, "", "new") is None
    copy = store.snapshot()
    store.close()
    again = Store(str(tmp_path / "db"))
    assert again.find(Vgpu) == copy.find(Vgpu)
    copy.close()
    again.close()


async def test_what_ends_first_is_ended_first(portal: Portal) -> None:
    """A long leap of time ends every action at the time it was due."""
    space = await portal.cloudspace()
    start = portal.simulation.clock.now()
    query = {"name": "a", "description": "", "vcpus": 1, "memory": 512, "image_id": 201}
    await portal.ok("POST", f"{space}/vms", disk_size=10, **query)
    portal.advance(10_000)
    (vm,) = portal.simulation.store.find(Vm)
    assert vm.status == "RUNNING"
    assert vm.running_since == pytest.approx(start + 0.8)


async def test_a_restart_ends_what_was_under_way(tmp_path: Path) -> None:
    """The step is in the record; a new simulation on the file ends it."""
    path = str(tmp_path / "db")
    store = Store(path)
    store.put(Vm(id="1", status="STARTING", step=Step("running", 100.0)))
    store.close()
    simulation = Simulation(Store(path))
    assert [vm.status for vm in simulation.settled().store.find(Vm)] == ["RUNNING"]
    simulation.advance(1000)
    lead = simulation.clock.lead
    simulation.store.close()
    again = Simulation(Store(path))
    assert again.clock.lead == lead
    again.store.close()


async def test_a_reset_starts_over_but_keeps_keys(portal: Portal) -> None:
    """World, ledger, log, breaches and faults go; tokens stay good."""
    await portal.reserve()
    portal.simulation.add_fault(Rule(action=Action(kind="slow"), match=Match(route="^/x")))
    portal.simulation.reset()
    assert portal.held() == 0
    assert portal.simulation.journal.calls(Filter()) == []
    assert portal.simulation.armed == []
    assert len(await portal.gpus()) == 8


async def test_lagging_lists_show_the_world_before_the_call(portal: Portal) -> None:
    """For a time instead of a number of calls; single objects are never stale."""
    space = await portal.cloudspace()
    portal.simulation.add_fault(
        Rule(
            action=Action(kind="lag", seconds=30, lists="/vms$"),
            match=Match(method="POST", route="/vms$"),
        )
    )
    vm = await portal.vm(space)
    portal.simulation.remove_faults(["none"])
    assert (await portal.ok("GET", f"{space}/vms"))["result"] != []
    portal.simulation.add_fault(
        Rule(
            action=Action(kind="lag", seconds=30, lists="/vms$"),
            match=Match(method="DELETE"),
        )
    )
    await portal.ok("DELETE", vm)
    portal.advance(1)
    await portal.refused(404, "GET", vm)
    assert len((await portal.ok("GET", f"{space}/vms"))["result"]) == 1
    portal.advance(30)
    assert (await portal.ok("GET", f"{space}/vms"))["result"] == []


async def test_too_many_calls_per_second_are_refused(portal: Portal) -> None:
    """A bucket per client; after the time named in Retry-After it goes on."""
    portal.simulation.set_switches({"requests_per_second": 2})
    answers = [await portal.call("GET", f"{C}/locations") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    portal.advance(float(answers[2].headers["Retry-After"]))
    await portal.ok("GET", f"{C}/locations")


BODIES = [("success", {"success": True}), ("null", None), ("empty", None)]


@pytest.mark.parametrize(("shape", "body"), BODIES)
async def test_answers_without_a_schema_have_one_of_three_bodies(
    portal: Portal, shape: str, body: object
) -> None:
    """Nobody knows what the platform writes there."""
    key = await portal.reserve()
    portal.simulation.set_switches({"no_schema_body": shape})
    answer = await portal.call("DELETE", f"{L}/vgpus/{key}")
    assert answer.content == {"success": b'{"success":true}', "null": b"null", "empty": b""}[shape]
    assert (answer.json() if answer.content else None) == body


async def test_absent_values_are_null_or_left_out(portal: Portal) -> None:
    """Both happen in the wild."""
    space = await portal.cloudspace(firewall={"private": True})
    assert (await portal.ok("GET", space))["external_network_ip"] is None
    portal.simulation.set_switches({"absent_fields": "omit"})
    assert "external_network_ip" not in await portal.ok("GET", space)


def test_worlds_come_from_files_and_mistakes_are_named(tmp_path: Path) -> None:
    """YAML or JSON; an unknown key is refused with its place."""
    good = tmp_path / "good.yaml"
    good.write_text("locations:\n- {name: x, cards: [{vendor: V, model: M, capacity: 2}]}\n")
    store = Store()
    world.seed(store, world.named(str(good)), 0.0)
    assert [one.id for one in store.find(Location)] == ["x"]
    store.close()
    bad = tmp_path / "bad.yaml"
    bad.write_text("locations:\n- {name: x, gpus: []}\n")
    with pytest.raises(ValueError, match=r"unknown field `gpus` - at `\$.locations\[0\]`"):
        world.named(str(bad))
    with pytest.raises(ValueError, match="No such file"):
        world.named(str(tmp_path / "absent"))
    assert world.named("empty") == world.World()


def test_a_hand_made_world_survives_a_round_trip() -> None:
    """What control ports send is what the command reads."""
    stock = world.named("stock")
    plain: Any = msgspec.to_builtins(stock)
    assert world.parsed(plain) == stock
    assert {one.name for one in stock.locations} == {BE, "nl-rmd-dc01-001"}


@pytest.mark.parametrize("count", [1000])
async def test_a_thousand_vms_and_three_thousand_vgpus_are_listed(
    portal: Portal, count: int
) -> None:
    """Big lists are complete; their cost is seen in the durations of this suite."""
    space = await portal.cloudspace(private_network="10.0.0.0/16")
    store, parent = portal.simulation.store, space.rpartition("/")[2]
    with store.transaction():
        for number in range(count):
            key = str(9000 + number)
            store.put(
                Vm(
                    id=key,
                    location=BE,
                    parent=parent,
                    name=f"vm-{number}",
                    status="RUNNING",
                    image_id="201",
                    disks=((number, "BOOT", 10),),
                )
            )
            for card in range(3):
                store.put(
                    Vgpu(
                        id=f"{number}-{card}",
                        location=BE,
                        parent="demo_1",
                        name="g",
                        gpu_id="x",
                        status="ASSIGNED",
                        link=key,
                    )
                )
    vms = (await portal.ok("GET", f"{space}/vms"))["result"]
    assert len(vms) == count
    assert all(len(one["devices"]) == 3 for one in vms)
    vgpus = await portal.ok("GET", f"{L}/vgpus", limit=0)
    assert vgpus["pagination"]["count"] == len(vgpus["data"]) == 3 * count
    assert (await portal.ok("GET", f"{L}/vgpus", start_after=2990))["pagination"]["pages"] == 120
