"""The cloud survives its own death."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.simulator import Simulator, running_simulator
from vcosim.control import Action, Match, When

BE = "be-mac-dc01-001"
C = "/customers/demo_1"
VM: dict[str, str | int] = {
    "name": "a",
    "description": "b",
    "vcpus": 1,
    "memory": 1024,
    "image_id": 201,
    "disk_size": 10,
    "start_vm": "false",
}


def until_ready(simulator: Simulator, path: str, field: str, wanted: str) -> dict[str, object]:
    """Poll until an object has a status; fails after some seconds."""
    deadline = time.monotonic() + 10
    while True:
        found: dict[str, object] = httpx2.get(
            simulator.url + path, headers=simulator.headers
        ).json()
        if found.get(field) == wanted:
            return found
        assert time.monotonic() < deadline, found


def test_a_kill_in_the_middle_of_an_action_loses_nothing(tmp_path: Path) -> None:
    """Killed while a VM deploys: same token, same world, faults and log; the action ends."""
    with running_simulator(tmp_path, as_process=True, replies="early", deploy_seconds=0.7) as one:
        with httpx2.Client(base_url=one.url, headers=one.headers) as http:
            body = {"name": "a", "location": BE, "firewall": {"private": True}}
            space = http.post(f"{C}/cloudspaces", json=body).json()["cloudspace_id"]
            until_ready(one, f"{C}/cloudspaces/{space}", "status", "DEPLOYED")
            gpu = one.control.cards.list(BE)[0].id
            http.post(f"{C}/locations/{BE}/gpus/{gpu}", json={"vgpu_name": "x"})
            vm_id = http.post(f"{C}/cloudspaces/{space}/vms", params=VM).json()["vm_id"]
            vm = f"{C}/cloudspaces/{space}/vms/{vm_id}"
            assert http.get(vm).json()["status"] == "DEPLOYING"
        one.control.faults.add(Action(kind="status", status=500), Match(method="POST"), When(nth=3))
        one.control.set(page_cap=7)
        calls = len(one.control.calls())
        one.kill()
        one.restart()
        until_ready(one, vm, "status", "HALTED")
        assert one.control.ledger().totals.held == 1
        assert [rule.rule.when.nth for rule in one.control.faults.list()] == [3]
        assert one.control.switches()["page_cap"] == 7
        assert len(one.control.calls()) > calls
        assert not one.control.breaches()


def test_a_signal_ends_it_gracefully_even_with_waiting_calls(tmp_path: Path) -> None:
    """SIGTERM: exit 0, and a call in progress gets its answer or an end, not a hang."""
    with running_simulator(tmp_path, as_process=True) as one:
        one.control.faults.add(Action(kind="slow", seconds=3600))
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.get(f"{one.url}{C}/locations", headers=one.headers, timeout=0.2)
        process = one.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vcosim", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | {"COLUMNS": "100"},
    )


def test_the_command_explains_itself_and_its_mistakes(tmp_path: Path) -> None:
    """--help and --switches inform; a wrong switch or world is named, with what is possible."""
    assert "--control-port" in run("--help").stdout
    assert "attach_needs_halted=True" in run("--switches").stdout
    wrong = run("--set", "replies=sometimes")
    assert wrong.returncode == 1
    assert "replies: blocking or early" in wrong.stderr
    assert "there are: absent_fields" in run("--set", "nope=1").stderr
    world = tmp_path / "world.yaml"
    world.write_text("locations: [{name: a, card: []}]")
    assert "unknown field `card`" in run("--world", str(world)).stderr
