"""What was found here once, each as short as it can be told."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from capvco.api.v1beta1.machine import GPURequest
from capvco.services.cloud import Cloud, Waits
from capvco.services.gpu_reservations import Reservations, Reserved, Wanted
from capvco.services.inventory import Inventory
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.vco.cloud import VCO
from tests.chaos.stateful import checks
from tests.chaos.stateful.faults import WHERE
from tests.chaos.stateful.life import Life
from tests.chaos.stateful.world import CLIENT, World
from tests.support.scenario import LOCATION
from tests.support.simulator import Simulator
from vcosim.control import Action, When

pytestmark = pytest.mark.timeout(180)
GATEWAY = 60.0
"""Seconds after which a gateway gives up on a call, and a client hears 504; as many as the settle
time has."""


class Desk:
    """Where one machine's vGPUs are reserved, at a clock that this test moves."""

    def __init__(self, vco: VCO) -> None:
        self.now = 1000.0
        self.call_seconds = 0.0
        """How long the next call takes that is made right after the record was stored."""
        self.record = Record(owner="an-owner")
        inventory = Inventory(vco, self.clock)
        self.cloud = Cloud(vco, inventory, Waits(settle=GATEWAY), clock=self.clock)

    def clock(self) -> float:
        return self.now

    async def save(self, record: Record) -> None:
        self.record = record
        self.now += self.call_seconds
        self.call_seconds = 0.0

    async def ensure(self) -> Reserved | Pending:
        request = GPURequest(type="L4", count=1)
        wanted = Wanted(machine="slow", location=LOCATION, cloudspace_id="cs", request=request)
        reservations = Reservations(self.cloud, wanted, self.save)
        self.record, outcome = await reservations.ensure(self.record)
        return outcome


@pytest.fixture
async def desk(simulator: Simulator) -> AsyncIterator[Desk]:
    async with VCO.open(simulator.credentials(), settings=CLIENT) as vco:
        yield Desk(vco)


async def test_a_reservation_that_a_gateway_gave_up_on(desk: Desk, simulator: Simulator) -> None:
    """It settles from the moment that its answer was lost, not from the moment it was sent.

    The call takes as long as the settle time; what it asked for is done some seconds later.
    """
    control = simulator.control
    control.faults.add(Action(kind="status", status=504), WHERE["reserve"], When(nth=1), times=1)
    desk.call_seconds = GATEWAY
    assert isinstance(await desk.ensure(), Pending)
    desk.now += 5.0
    assert isinstance(await desk.ensure(), Pending), "a second one was bought"
    (slot,) = desk.record.gpus
    control.hand.add_vgpu(simulator.customer_id, LOCATION, slot.profile_id, slot.name)
    desk.now += 5.0
    assert isinstance(await desk.ensure(), Reserved)
    assert control.ledger().totals.made == 1


async def test_an_outage_of_reservations(desk: Desk, simulator: Simulator) -> None:
    """However often an attempt was given up, the first that is possible succeeds."""
    control = simulator.control
    control.faults.add(Action(kind="status", status=503), WHERE["reserve"])
    for _ in range(20):
        assert isinstance(await desk.ensure(), Pending)
        desk.now += GATEWAY + 1.0
    control.faults.clear()
    assert isinstance(await desk.ensure(), Reserved)
    assert control.ledger().totals.made == 1


@pytest.mark.cluster
def test_a_late_twin_holds_the_last_card(world: World) -> None:
    """What turns up after it was given up is not waited for by the machine whose it is."""
    with Life.lived(world) as life:
        life.room("Dummy ", 1)
        for card in life.cards("Dummy ")[1:]:
            life.control.cards.set(LOCATION, card, 0)
        life.control.faults.add(Action(kind="lose_before"), WHERE["reserve"], When(nth=1), times=1)
        life.create("late", gpu={"type": "Dummy GPU", "count": 1})
        life.until("the attempt", lambda: _unanswered(life))
        (slot,) = _unanswered(life)
        life.room("Dummy ", 0)
        life.until("the attempt to be given up", lambda: _lost(life))
        life.kill_manager()
        life.room("Dummy ", 1)
        for card in life.cards("Dummy ")[1:]:
            life.control.cards.set(LOCATION, card, 0)
        life.control.hand.add_vgpu(life.customer, LOCATION, slot["profileId"], slot["name"])
        life.start_manager()
        life.until("the machine", lambda: checks.settled(life, "late", 1))
        assert not _lost(life)
        checks.always(life, {"late": 1})


def _unanswered(life: Life) -> list[dict[str, str]]:
    record = life.machines()["late"].record
    slots = record.gpus if record else ()
    return [msgspec.to_builtins(slot) for slot in slots if not slot.vgpu_id]


def _lost(life: Life) -> tuple[str, ...]:
    record = life.machines()["late"].record
    return record.lost if record else ()
