"""The shipped description as a generator: what it allows is understood, what it forbids is refused.

Deterministic: hypothesis draws the same examples on every run. Every operation gets a fresh world
in which the identifiers of its path exist.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
)

from tests.support.simulator import QUICK, Simulator, running_simulator
from vcosim.description import shipped

BE = "be-mac-dc01-001"
NL = "nl-rmd-dc01-001"
C = "/customers/demo_1"
EXAMPLES = settings(
    max_examples=6,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
Case = Any  # schemathesis exports its classes under names of its own
# Without the security part, or examples without a token would count as forbidden requests.
SCHEMA = schemathesis.openapi.from_dict(
    {key: one for key, one in shipped().document.items() if not key.startswith("security")}
)
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulator for all operations; nothing takes time in it and nothing is null."""
    folder = tmp_path_factory.mktemp("vcosim")
    instant: dict[str, Any] = dict.fromkeys(QUICK, 0.0)
    with running_simulator(folder, quick=False, absent_fields="omit", **instant) as running:
        yield running


@pytest.fixture
def identifiers(cloud: Simulator) -> dict[str, str | int]:
    """A small world with one of everything, and the path parameters that lead to it."""
    cloud.control.reset()
    with httpx2.Client(base_url=cloud.url, headers=cloud.headers) as http:

        def ask(method: str, path: str, **sent: Any) -> Any:  # noqa: ANN401 - JSON in and out
            answer = http.request(method, C + path, **sent)
            assert answer.is_success, answer.text
            return answer.json() if answer.content else None

        return _one_of_everything(ask)


def _one_of_everything(ask: Callable[..., Any]) -> dict[str, str | int]:
    public = {"private": False}
    space = ask("POST", "/cloudspaces", json={"name": "a", "location": BE, "firewall": public})
    far = {"name": "b", "location": NL, "private_network": "10.1.0.0/24", "firewall": public}
    other = ask("POST", "/cloudspaces", json=far)["cloudspace_id"]
    here = f"/cloudspaces/{space['cloudspace_id']}"
    machine = {"name": "a", "description": "", "vcpus": 1, "memory": 512, "disk_size": 10}
    vm_id = ask("POST", f"{here}/vms", params={**machine, "image_id": 201, "start_vm": "false"})
    vm = f"{here}/vms/{vm_id['vm_id']}"
    gpus = [one["id"] for one in ask("GET", f"/locations/{BE}/gpus")["result"]]
    vgpu = ask("POST", f"{vm}/gpus/{gpus[0]}", json={"vgpu_name": "a"})["vgpu_id"]
    ask("POST", f"{here}/anti-affinity-groups", params={"spread": 1, "group_id": "g"})
    ask("POST", f"{here}/anti-affinity-groups/g/vms", params={"vm_id": vm_id["vm_id"]})
    for owner in (here, vm):
        ask("POST", f"{owner}/notes", json={"title": "t", "content": "c"})
    pool = ask("POST", f"{here}/ingress/server-pools", params={"name": "p"})["id"]
    hosts = f"{here}/ingress/server-pools/{pool}/hosts"
    host = ask("POST", hosts, params={"address": "192.168.103.2"})["host_id"]
    balancer = {"name": "l", "type": "TCP", "front_end": {"port": 6443, "ip_address": ""}}
    back = {"serverpool_id": pool, "target_port": 6443}
    balance = f"{here}/ingress/load-balancers"
    lb = ask("POST", balance, json={**balancer, "back_end": back})["id"]
    ssh = {"local_port": 22, "public_port": 22, "protocol": "tcp", "vm_id": vm_id["vm_id"]}
    forward = ask("POST", f"{here}/portforwards", params=ssh)["portforward_id"]
    ends = {
        "connected_cloudspace_id": other,
        "local_cloudspace_ip": ask("GET", here)["external_network_ip"],
        "remote_cloudspace_ip": ask("GET", f"/cloudspaces/{other}")["external_network_ip"],
    }
    ask("POST", f"{here}/connected-cloudspaces", params=ends)
    images = f"/locations/{BE}/vm-images"
    upload = ask("POST", f"{images}/upload-vm-image", params={"file_name": "f"})["upload_id"]
    return {
        "customer_id": "demo_1",
        "location": BE,
        "cloudspace_id": space["cloudspace_id"],
        "connected_cloudspace_id": other,
        "vm_id": vm_id["vm_id"],
        "gpu_id": gpus[1],
        "vgpu_id": vgpu,
        "group_id": "g",
        "note_id": ask("GET", f"{here}/notes")["result"][0]["id"],
        "serverpool_id": pool,
        "host_id": host,
        "loadbalancer_id": lb,
        "portforward_id": forward,
        "external_network_id": 11,
        "image_id": 202,
        "upload_id": upload,
        "part_id": "1",
    }


def lead(case: Case, identifiers: dict[str, str | int]) -> None:
    """Let the path of a request lead to things that exist."""
    case.path_parameters = {name: identifiers[name] for name in case.path_parameters or {}}


def explore(key: str, mode: GenerationMode, judge: Callable[[Case], None]) -> None:
    """Draw examples of one operation and judge each."""
    strategy = OPERATIONS[key].as_strategy(generation_mode=mode)
    EXAMPLES(given(case=strategy)(judge))()


def test_every_operation_is_explored() -> None:
    """Schemathesis could read all of them."""
    assert set(OPERATIONS) == set(shipped().operations)


@pytest.mark.parametrize("key", OPERATIONS)
def test_what_the_description_allows_is_understood(
    cloud: Simulator, identifiers: dict[str, str | int], key: str
) -> None:
    """No breach, no failure of the simulator, and answers exactly as described."""

    def judge(case: Case) -> None:
        lead(case, identifiers)
        answer = case.call(base_url=cloud.url, headers=cloud.headers)
        checks = [content_type_conformance, response_schema_conformance]
        case.validate_response(answer, checks=checks)
        assert answer.status_code < 500 or _no_room(answer), answer.content

    explore(key, GenerationMode.POSITIVE, judge)
    breaches = cloud.control.breaches()
    assert not breaches, breaches


def _no_room(answer: Any) -> bool:  # noqa: ANN401 - the response class of schemathesis
    """Say whether an answer is the platform's 503 for lack of addresses, which is legitimate."""
    return bool(answer.status_code == 503 and b"No free" in answer.content)


def _can_be_wrong(key: str) -> bool:
    return bool(OPERATIONS[key].query or OPERATIONS[key].body)


@pytest.mark.parametrize("key", [key for key in OPERATIONS if _can_be_wrong(key)])
def test_what_the_description_forbids_is_refused(
    cloud: Simulator, identifiers: dict[str, str | int], key: str
) -> None:
    """Never a success and never a failure of the simulator."""

    def judge(case: Case) -> None:
        part = case.meta.components.get(ParameterLocation.PATH)
        if part is None or part.mode is not GenerationMode.NEGATIVE:
            lead(case, identifiers)
        answer = case.call(base_url=cloud.url, headers=cloud.headers)
        case.validate_response(answer, checks=[negative_data_rejection])
        assert answer.status_code < 500 or _no_room(answer), answer.content

    explore(key, GenerationMode.NEGATIVE, judge)
    assert cloud.control.breaches().simulator == ()
