"""The control port through its Python client."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.support.simulator import Simulator
from vcosim.control import Action, ControlError, Match

BE = "be-mac-dc01-001"
C = "/customers/demo_1"
L = f"{C}/locations/{BE}"


@pytest.fixture
def http(simulator: Simulator) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=simulator.url, headers=simulator.headers) as client:
        yield client


def make_vm(http: httpx2.Client) -> None:
    body = {"name": "a", "location": BE, "firewall": {"private": True}}
    space = http.post(f"{C}/cloudspaces", json=body).json()["cloudspace_id"]
    query = {"name": "a", "description": "", "vcpus": "1", "memory": "512", "image_id": "201"}
    made = http.post(
        f"{C}/cloudspaces/{space}/vms",
        params={**query, "disk_size": "10"},
        json={"userdata": {"runcmd": ["true"]}},
    )
    assert made.is_success, made.text


def test_a_person_can_act_behind_a_programs_back(simulator: Simulator, http: httpx2.Client) -> None:
    """Add a vGPU, bin one, delete a VM: unlogged, untouched by faults, and real."""
    make_vm(http)
    simulator.control.clear_calls()
    simulator.control.faults.add(Action(kind="status", status=500))
    hand = simulator.control.hand
    gpu = simulator.control.cards.list(BE)[0].id
    key = hand.add_vgpu("demo_1", BE, gpu, "somebody-elses")
    hand.delete_vgpu("demo_1", BE, key)
    (vm,) = simulator.control.vms()
    hand.delete_vm(vm, detach_gpu=True)
    with pytest.raises(ControlError, match="409"):
        hand.add_vgpu("demo_1", BE, gpu, "no-room")
    assert simulator.control.calls() == []
    simulator.control.faults.clear()
    found = http.get(f"{C}/recycle-bin").json()["result"]
    assert [one["vgpu_name"] for one in found["vgpus"]] == ["somebody-elses"]
    assert [one["vm_name"] for one in found["vms"]] == ["a"]
    assert [one.status for one in simulator.control.vms(BE)] == ["DELETED"]


def test_what_a_guest_reads_is_told(simulator: Simulator, http: httpx2.Client) -> None:
    """Source, value and text, by location and VM id."""
    make_vm(http)
    (vm,) = simulator.control.vms()
    read = simulator.control.userdata(vm.location, vm.id)
    assert (read.source, read.userdata) == ("body", {"runcmd": ["true"]})
    assert read.text == "#cloud-config\nruncmd:\n- 'true'\n"
    with pytest.raises(ControlError, match="no VM 77"):
        simulator.control.userdata(BE, 77)


def test_cards_grow_and_shrink(simulator: Simulator, http: httpx2.Client) -> None:
    """Capacity can be set, taken and given back; what is held stays held."""
    cards = simulator.control.cards
    gpu = cards.list(BE)[0].id
    cards.set(BE, gpu, 3)
    for name in ("a", "b"):
        assert http.post(f"{L}/gpus/{gpu}", json={"vgpu_name": name}).is_success
    cards.take(BE, gpu, 2)
    assert (cards.list(BE)[0].capacity, cards.list(BE)[0].free) == (1, 0)
    cards.give_back(BE, gpu, 2)
    assert cards.list(BE)[0].free == 1
    assert simulator.control.ledger().totals.held == 2
    with pytest.raises(ControlError, match="no card x"):
        cards.set(BE, "x", 1)


def test_worlds_can_be_added_and_replaced(simulator: Simulator, http: httpx2.Client) -> None:
    """Seed adds, reset starts over: with a given world, then again with that one."""
    card = {"vendor": "NVIDIA", "model": "H100 0000:01:00.0"}
    simulator.control.seed({"locations": [{"name": BE, "cards": [card]}]})
    assert "H100 0000:01:00.0" in http.get(f"{L}/gpus").text
    with pytest.raises(ControlError, match="unknown field `gpus`"):
        simulator.control.seed({"locations": [{"name": BE, "gpus": [card]}]})
    small = {
        "locations": [{"name": BE, "cards": [card]}],
        "customers": [{"customer_id": "demo_1", "locations": [BE]}],
        "clients": [{"client_id": "demo", "customers": ["demo_1"]}],
    }
    simulator.control.reset(small)
    gpu = http.get(f"{L}/gpus").json()["result"][0]["id"]
    assert http.post(f"{L}/gpus/{gpu}", json={"vgpu_name": "a"}).is_success
    simulator.control.reset()
    assert len(http.get(f"{L}/gpus").json()["result"]) == 1
    assert simulator.control.ledger().rows == ()
    assert set(simulator.control.state()) == {"location", "customer", "client", "card"}


def test_the_log_can_be_searched_and_counted(simulator: Simulator, http: httpx2.Client) -> None:
    """By method, route, path, client; with times, and apart for mutating calls."""
    gpu = simulator.control.cards.list(BE)[0].id
    http.get(f"{L}/gpus", params={})
    http.post(f"{L}/gpus/{gpu}", json={"vgpu_name": "a"})
    http.get(f"{C}/cloudspaces?include_deleted=true")
    (call,) = simulator.control.calls(mutating=True)
    assert call.route == "/customers/{customer_id}/locations/{location}/gpus/{gpu_id}"
    assert (call.client, call.status, call.mutating) == ("demo", 200, 1)
    assert call.ended is not None
    assert call.started <= call.ended
    assert len(simulator.control.calls(path=L)) == 2
    assert simulator.control.calls(path=f"{C}/cloud")[0].query == "include_deleted=true"
    assert simulator.control.calls(client="other") == []
    assert len(simulator.control.calls(after=call.seq)) == 1
    assert sum(one.count for one in simulator.control.counts()) == 3


def test_secrets_do_not_reach_the_log(simulator: Simulator) -> None:
    """A client secret in a query of the IAM is not written down."""
    secret = simulator.client_secret
    query = {"grant_type": "client_credentials", "client_id": "demo", "client_secret": secret}
    answer = httpx2.post(f"{simulator.iam_url}/v1/oauth/access_token", params=query)
    assert answer.is_success
    (call,) = simulator.control.calls()
    assert call.query == ""


def test_tokens_can_be_made_and_revoked(simulator: Simulator, http: httpx2.Client) -> None:
    """A revoked token is 401; a new one is good; every key is known."""
    simulator.control.revoke_tokens()
    assert http.get(f"{C}/locations").status_code == 401
    fresh = simulator.control.token("demo", 60)
    headers = {"Authorization": f"Bearer {fresh}"}
    assert http.get(f"{C}/locations", headers=headers).status_code == 200
    assert [one.id for one in simulator.control.clients()] == ["demo", "other"]
    with pytest.raises(ControlError, match="no client nobody"):
        simulator.control.token("nobody")


def test_time_and_switches_are_at_hand(simulator: Simulator) -> None:
    """The clock moves forward only; a wrong switch or rule is refused with a reason."""
    before = simulator.control.clock.now()
    assert simulator.control.clock.advance(3600) >= before + 3600
    with pytest.raises(ControlError, match="cannot go back"):
        simulator.control.clock.advance(-1)
    simulator.control.set(page_cap=5)
    assert simulator.control.switches()["page_cap"] == 5
    with pytest.raises(ControlError, match="replies: blocking or early"):
        simulator.control.set(replies="never")
    with pytest.raises(ControlError, match="no regular expression"):
        simulator.control.faults.add(Action(kind="slow"), Match(route="("))
