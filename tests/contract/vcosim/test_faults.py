"""Faults on order, seen through a real connection."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.support.simulator import Simulator
from vcosim.control import Action, Match, When

BE = "be-mac-dc01-001"
LOCATION = f"/customers/demo_1/locations/{BE}"
RESERVE = Match(method="POST", route=r"/locations/\{location\}/gpus/\{gpu_id\}$")
GPUS = Match(method="GET", route="/gpus$")


@pytest.fixture
def http(simulator: Simulator) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=simulator.url, headers=simulator.headers) as client:
        yield client


def reserve(http: httpx2.Client, simulator: Simulator, name: str = "x") -> httpx2.Response:
    card = next(one for one in simulator.control.cards.list(BE) if one.free)
    return http.post(f"{LOCATION}/gpus/{card.id}", json={"vgpu_name": name})


def held(simulator: Simulator) -> int:
    return simulator.control.ledger().totals.held


def test_an_answer_lost_after_commit_leaves_its_work(
    simulator: Simulator, http: httpx2.Client
) -> None:
    """The client sees a broken connection; the reservation is there and in the log."""
    simulator.control.faults.add(Action(kind="lose_after"), RESERVE, When(nth=1))
    with pytest.raises(httpx2.TransportError):
        reserve(http, simulator)
    assert held(simulator) == 1
    (call,) = simulator.control.calls(method="POST")
    assert (call.status, call.fault, call.mutating) == (200, "lose_after", 1)
    assert reserve(http, simulator, "y").status_code == 200


def test_a_request_lost_before_the_cloud_leaves_nothing(
    simulator: Simulator, http: httpx2.Client
) -> None:
    """The client cannot tell it from the other loss; nothing was made."""
    simulator.control.faults.add(Action(kind="lose_before"), RESERVE)
    with pytest.raises(httpx2.TransportError):
        reserve(http, simulator)
    assert held(simulator) == 0
    assert simulator.control.calls(method="POST")[0].status == 0


def test_too_many_requests_say_when_to_come_back(simulator: Simulator, http: httpx2.Client) -> None:
    """429 with Retry-After, for two calls."""
    action = Action(kind="status", status=429, retry_after=7, html=False)
    simulator.control.faults.add(action, times=2)
    for _ in range(2):
        answer = http.get(f"{LOCATION}/gpus")
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
        assert answer.json() == {"message": "Too Many Requests"}
    assert http.get(f"{LOCATION}/gpus").status_code == 200
    (rule,) = simulator.control.faults.list()
    assert (rule.seen, rule.fired) == (3, 2)


@pytest.mark.parametrize(("committed", "made"), [(False, 0), (True, 1)])
def test_a_gateway_error_is_a_page_before_or_after_the_work(
    simulator: Simulator, http: httpx2.Client, committed: bool, made: int
) -> None:
    """504 with HTML; only what comes after the commit leaves a reservation."""
    action = Action(kind="status", status=504, committed=committed)
    simulator.control.faults.add(action, RESERVE)
    answer = reserve(http, simulator)
    assert answer.status_code == 504
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "<title>504 Gateway Time-out</title>" in answer.text
    assert held(simulator) == made


def test_a_body_may_end_early(simulator: Simulator, http: httpx2.Client) -> None:
    """Either the connection breaks in the body, or the body is whole and not JSON."""
    simulator.control.faults.add(Action(kind="truncate", keep=0.4), GPUS, When(nth=1))
    simulator.control.faults.add(Action(kind="truncate", keep=0.4, clean=True), GPUS, When(nth=2))
    with pytest.raises(httpx2.RemoteProtocolError):
        http.get(f"{LOCATION}/gpus")
    answer = http.get(f"{LOCATION}/gpus")
    assert answer.status_code == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        answer.json()


def test_a_slow_answer_outlives_a_clients_patience(
    simulator: Simulator, http: httpx2.Client
) -> None:
    """The client gives up; the work is done all the same."""
    action = Action(kind="slow", seconds=3600, committed=True)
    simulator.control.faults.add(action, RESERVE)
    card = simulator.control.cards.list(BE)[0].id
    with pytest.raises(httpx2.ReadTimeout):
        http.post(f"{LOCATION}/gpus/{card}", json={"vgpu_name": "x"}, timeout=0.3)
    assert held(simulator) == 1
    assert simulator.control.calls(method="POST")[0].ended is None


def test_the_seventh_mutating_call_can_be_addressed(
    simulator: Simulator, http: httpx2.Client
) -> None:
    """Reads do not count; clearing the log starts the count again."""
    simulator.control.faults.add(Action(kind="status", status=500), when=When(mutating_nth=3))
    for expected in (200, 200, 500, 200):
        http.get(f"{LOCATION}/gpus")
        assert reserve(http, simulator).status_code == expected
    simulator.control.clear_calls()
    assert [reserve(http, simulator).status_code for _ in range(3)] == [200, 200, 500]


def test_lists_may_lag(simulator: Simulator, http: httpx2.Client) -> None:
    """Two lists after a reservation do not show it; the third does."""
    simulator.control.faults.add(Action(kind="lag", calls=2, lists="/vgpus$"), RESERVE, When(nth=1))
    assert reserve(http, simulator).status_code == 200
    counts = [http.get(f"{LOCATION}/vgpus").json()["pagination"]["count"] for _ in range(3)]
    assert counts == [0, 0, 1]


def test_a_location_may_not_answer(simulator: Simulator, http: httpx2.Client) -> None:
    """A list over all locations says so and lacks that location's objects."""
    body = {"name": "a", "location": BE, "firewall": {"private": True}}
    assert http.post("/customers/demo_1/cloudspaces", json=body).status_code == 200
    simulator.control.faults.add(Action(kind="partial", location=BE), times=1)
    partial = http.get("/customers/demo_1/cloudspaces").json()
    assert {one["location"]: one["status"] for one in partial["locations"]}[BE] == "error"
    assert partial["result"] == []
    whole = http.get("/customers/demo_1/cloudspaces").json()
    assert [one["status"] for one in whole["locations"]] == ["OK", "OK"]
    assert len(whole["result"]) == 1


def test_capacity_may_vanish_in_the_moment_of_reservation(
    simulator: Simulator, http: httpx2.Client
) -> None:
    """Somebody else was faster: the card is full when the call arrives."""
    card = simulator.control.cards.list(BE)[0]
    action = Action(kind="capacity", location=BE, gpu_id=card.id, capacity=0)
    simulator.control.faults.add(action, RESERVE, When(nth=1))
    answer = reserve(http, simulator)
    assert answer.status_code == 409
    assert "no free instance" in answer.json()["message"]
    simulator.control.cards.give_back(BE, card.id)
    assert reserve(http, simulator).status_code == 200


def test_random_faults_are_the_same_every_time(simulator: Simulator, http: httpx2.Client) -> None:
    """The same seed strikes the same calls."""

    def struck() -> list[int]:
        rule = simulator.control.faults.add(
            Action(kind="status", status=502), GPUS, When(probability=0.4, seed=5)
        )
        found = [http.get(f"{LOCATION}/gpus").status_code for _ in range(20)]
        simulator.control.faults.remove(rule.id)
        return found

    first = struck()
    assert first == struck()
    assert 200 in first
    assert 502 in first


def test_the_identity_provider_fails_on_order_too(simulator: Simulator) -> None:
    """Its two paths are routes like any other."""
    simulator.control.faults.add(Action(kind="status", status=502), Match(route="/access_token$"))
    answer = httpx2.post(f"{simulator.iam_url}/v1/oauth/access_token")
    assert answer.status_code == 502
