"""The checks themselves see what they are there to see."""

from collections.abc import Iterator

import pytest

from tests.chaos.stateful import checks
from tests.chaos.stateful.life import Life
from tests.chaos.stateful.world import World
from tests.support.scenario import LOCATION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture
def life(world: World) -> Iterator[Life]:
    """Give a cluster that nobody manages any more."""
    with Life.lived(world) as life:
        life.kill_manager()
        life.room("Dummy ", 4)
        checks.always(life, {})
        yield life


def _reserve(life: Life, name: str) -> str:
    card = life.cards("Dummy ")[0]
    return life.control.hand.add_vgpu(life.customer, LOCATION, card, name)


def test_a_reservation_without_a_machine(life: Life) -> None:
    _reserve(life, "capvco-one-gpu-0")
    with pytest.raises(AssertionError, match="nobody knows of"):
        checks.always(life, {"one": 1})
    with pytest.raises(AssertionError, match="one is gone and holds something"):
        checks.left(life, "one")


def test_a_reservation_too_many(life: Life) -> None:
    life.start_manager()
    life.create("one", gpu={"type": "Dummy", "count": 1})
    life.until("the machine", lambda: checks.settled(life, "one", 1))
    checks.always(life, {"one": 1})
    with pytest.raises(AssertionError, match="nobody knows of"):
        checks.always(life, {"one": 0})
    _reserve(life, "capvco-one-gpu-0")
    with pytest.raises(AssertionError, match="nobody knows of"):
        checks.always(life, {"one": 2})
    assert not checks.settled(life, "one", 1)


def test_a_strangers_reservation_is_gone(life: Life) -> None:
    made = _reserve(life, "capvco-one-gpu-0")
    life.foreign.add(made)
    checks.always(life, {"one": 1})
    life.control.hand.delete_vgpu(life.customer, LOCATION, made, permanently=True)
    with pytest.raises(AssertionError):
        checks.always(life, {"one": 1})


def test_a_strangers_vm_has_changed(life: Life) -> None:
    life.strangers_vm("one")
    checks.always(life, {"one": 1})
    path = f"/customers/{life.customer}/cloudspaces/{life.cloudspace}/vms"
    life.control.hand.call("POST", f"{path}/{life.foreign_vms['one'].id}/start")
    with pytest.raises(AssertionError, match="is not"):
        checks.always(life, {"one": 1})
