"""What is outside the description is refused and remembered."""

from typing import Any

import httpx2
import pytest

from tests.support.simulator import Simulator

BE = "be-mac-dc01-001"
LOCATION = f"/customers/demo_1/locations/{BE}"
SPACES = "/customers/demo_1/cloudspaces"
FIREWALL: dict[str, Any] = {"private": False}
VM = {"name": "a", "description": "b", "vcpus": "1", "memory": "512"}
JSON = {"Content-Type": "application/json"}

OUTSIDE: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("unknown parameter", "GET", f"{LOCATION}/vgpus", {"params": {"name": "x"}}, 400, "name"),
    ("not an integer", "GET", f"{LOCATION}/vgpus", {"params": {"limit": "all"}}, 400, "integer"),
    ("empty integer", "GET", f"{LOCATION}/vgpus", {"params": {"limit": ""}}, 400, "integer"),
    ("no boolean", "GET", SPACES, {"params": {"only_deleted": "maybe"}}, 400, "boolean"),
    ("given twice", "GET", SPACES, {"params": {"locations": ["a", "b"]}}, 400, "twice"),
    ("missing", "POST", f"{SPACES}/x/vms", {"params": {"name": "a"}}, 400, "Missing required"),
    (
        "not in the enum",
        "POST",
        f"{SPACES}/x/vms",
        {"params": VM | {"boot_type": "legacy"}},
        400,
        "not one of bios",
    ),
    (
        "array of the wrong type",
        "POST",
        f"{SPACES}/x/vms",
        {"params": VM | {"data_disks": "1,x"}},
        400,
        "integer",
    ),
    (
        "parameter as body key",
        "POST",
        f"{SPACES}/x/vms",
        {"params": VM, "json": {"user_data": "x"}},
        400,
        "user_data",
    ),
    ("missing body", "POST", SPACES, {}, 400, "body is required"),
    (
        "unknown body key",
        "POST",
        SPACES,
        {"json": {"name": "a", "location": BE, "firewall": FIREWALL, "labels": {}}},
        400,
        "labels",
    ),
    (
        "missing body key",
        "POST",
        SPACES,
        {"json": {"name": "a", "location": BE}},
        400,
        "firewall",
    ),
    (
        "wrong type inside",
        "POST",
        SPACES,
        {"json": {"name": "a", "location": BE, "firewall": {"private": "no"}}},
        400,
        "firewall.private",
    ),
    (
        "null",
        "POST",
        SPACES,
        {"json": {"name": "a", "location": BE, "firewall": FIREWALL, "host": None}},
        400,
        "host",
    ),
    ("not JSON", "POST", SPACES, {"content": b"{", "headers": JSON}, 400, "not JSON"),
    ("no object", "POST", SPACES, {"json": []}, 400, "object"),
    (
        "wrong media type",
        "POST",
        SPACES,
        {"content": b"{}", "headers": {"Content-Type": "text/plain"}},
        400,
        "Content-Type",
    ),
    ("body where none is", "POST", f"{LOCATION}/vgpus/x", {"json": {}}, 400, "takes no body"),
    ("no such path", "GET", f"{LOCATION}/gpu", {}, 404, "not found"),
    ("no integer in the path", "GET", f"{SPACES}/x/vms/one", {}, 404, "not found"),
    ("no such method", "PATCH", SPACES, {}, 405, "not allowed"),
    ("head", "HEAD", SPACES, {}, 405, "not allowed"),
]


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "why"),
    [case[1:] for case in OUTSIDE],
    ids=[case[0] for case in OUTSIDE],
)
def test_a_request_outside_the_description_is_refused_and_recorded(  # noqa: PLR0917 - a row
    simulator: Simulator, method: str, path: str, sent: dict[str, Any], status: int, why: str
) -> None:
    """The refusal has the framework's shape; the breach says who, what and why."""
    headers = simulator.headers | sent.get("headers", {})
    answer = httpx2.request(method, simulator.url + path, **(sent | {"headers": headers}))
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["message"] == "Input payload validation failed"
        assert answer.json()["errors"]
    (breach,) = simulator.control.breaches().client
    assert (breach.method, breach.path, breach.client) == (method, path, "demo")
    assert why in breach.why
    simulator.control.clear_breaches()
    assert not simulator.control.breaches()


def test_refusals_about_the_state_of_things_are_no_breaches(simulator: Simulator) -> None:
    """404, 401, 403 and 409 are part of the conversation."""
    with httpx2.Client(base_url=simulator.url) as http:
        assert http.get(SPACES).status_code == 401
        wrong = {"Authorization": "Bearer a.b.c"}
        assert http.get(SPACES, headers=wrong).status_code == 401
        http.headers.update(simulator.headers)
        assert http.get(f"{SPACES}/bm8tc3VjaDox").status_code == 404
        assert http.get(f"{SPACES}/nonsense").status_code == 400
        assert http.get("/customers/nobody_9/locations").status_code == 404
        assert http.get("/customers/other_2/locations").status_code == 403
        assert http.get(LOCATION.replace(BE, "us-x")).status_code == 404
    assert not simulator.control.breaches()


def test_integers_beyond_64_bits_are_refused_without_a_breach(simulator: Simulator) -> None:
    """The description sets no bounds, so asking is no breach; storing is not possible."""
    headers = simulator.headers
    body = {"name": "a", "location": BE, "firewall": FIREWALL, "vcpu_quota": 2**70}
    answers = [
        httpx2.get(f"{simulator.url}{LOCATION}/vgpus?limit={2**70}", headers=headers),
        httpx2.post(simulator.url + SPACES, json=body, headers=headers),
    ]
    assert [one.status_code for one in answers] == [400, 400]
    assert answers[1].json()["errors"] == {"vcpu_quota": "integer out of range"}
    assert not simulator.control.breaches()


def test_the_field_mask_is_accepted_and_ignored(simulator: Simulator) -> None:
    """X-Fields may be sent; the answer is whole all the same."""
    headers = simulator.headers | {"X-Fields": "result{id}"}
    answer = httpx2.get(f"{simulator.url}{LOCATION}/gpus", headers=headers)
    assert "model" in answer.json()["result"][0]
    assert not simulator.control.breaches()


def test_lower_case_bearer_and_title_case_booleans_are_accepted(simulator: Simulator) -> None:
    """Clients of the real platform send both."""
    headers = {"Authorization": f"bearer {simulator.token}"}
    answer = httpx2.get(
        f"{simulator.url}{SPACES}", params={"include_deleted": "True"}, headers=headers
    )
    assert answer.status_code == 200
    assert not simulator.control.breaches()
