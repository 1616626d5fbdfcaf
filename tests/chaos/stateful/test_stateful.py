"""Whatever happens in whatever order: no leak, no double, no theft, and all machines come up."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.chaos.stateful.machine import Lives
from tests.chaos.stateful.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]


def _settings(examples: int, steps: int) -> settings:
    """Return the settings of a run: the same examples each time.

    Not shrunk: a step's effect depends on the moment too. The failure tells all steps.
    """
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


def _run(world: World, examples: int, steps: int) -> None:
    class Here(Lives):
        pass

    Here.world = world
    run_state_machine_as_test(Here, settings=_settings(examples, steps))


def test_some_lives(world: World) -> None:
    """The short form."""
    _run(world, 8, 20)


@pytest.mark.full
def test_many_lives(world: World) -> None:
    """The long form."""
    _run(world, 80, 40)
