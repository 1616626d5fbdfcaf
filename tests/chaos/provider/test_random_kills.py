"""The manager is killed again and again while a pool comes up and goes down."""

import random

import pytest

from tests.support.scenario import Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
KILLS = 10
WORKERS = ("one", "two", "three")


def test_ten_kills_leave_no_trace(scenario: Scenario) -> None:
    """Killed (-9) at ten moments, reads included: one VM and one card each, then nothing held."""
    control = scenario.simulator.control
    moments = random.Random(7)
    kills = 0
    next_kill = moments.randint(1, 12)
    scenario.start_manager()
    scenario.put_cluster()
    for name in WORKERS:
        scenario.put_machine(name, gpu={"type": "NVIDIA A100", "count": 1})

    def survived() -> None:
        nonlocal kills, next_kill
        seen = len(control.calls())
        if kills < KILLS and seen >= next_kill:
            scenario.kill_manager()
            scenario.start_manager()
            kills += 1
            next_kill = seen + moments.randint(3, 8)

    def up() -> bool:
        survived()
        return all(scenario.running(name) for name in WORKERS)

    scenario.until("the pool", up, seconds=120)
    assert scenario.vm_names() == sorted(WORKERS)
    assert scenario.held == len(WORKERS)
    scenario.delete("clusters", "demo")

    def down() -> bool:
        survived()
        return scenario.gone("clusters", "demo")

    scenario.until("the end", down, seconds=120)
    assert kills == KILLS, "the life was too short for its kills"
    assert scenario.held == 0
    assert scenario.made == len(WORKERS)
    assert scenario.vm_names() == []
