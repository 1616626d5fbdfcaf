"""Many machines that want a card at the same moment."""

import asyncio

from capvco.api.v1beta1.machine import GPURequest
from capvco.services.cloud import Cloud, Waits
from capvco.services.gpu_reservations import Reservations, Reserved, Wanted
from capvco.services.inventory import Inventory
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.vco.cloud import VCO
from capvco.vco.settings import ClientSettings
from tests.support.scenario import LOCATION
from tests.support.simulator import Simulator

MACHINES = 12
RESERVE = "/customers/{customer_id}/locations/{location}/gpus/{gpu_id}"
QUICK = ClientSettings(rate=1000, burst=1000, concurrency=MACHINES)


def opened(simulator: Simulator) -> VCO:
    return VCO.open(simulator.credentials(), settings=QUICK)


def wanted(machine: str) -> Wanted:
    request = GPURequest(type="Crowd GPU", count=1)
    return Wanted(machine=machine, location=LOCATION, cloudspace_id="cs", request=request)


def put_cards(simulator: Simulator, count: int) -> None:
    cards = [
        {"vendor": "Crowd", "model": f"GPU 0000:{number:02x}:00.0"}
        for number in range(1, count + 1)
    ]
    simulator.control.seed({"locations": [{"name": LOCATION, "cards": cards}]})


async def crowd(simulator: Simulator) -> list[Reserved | Pending]:
    """Let all machines reserve at once."""

    async def save(_: Record) -> None:
        await asyncio.sleep(0)

    async with opened(simulator) as vco:
        cloud = Cloud(vco, Inventory(vco), Waits())

        async def one(number: int) -> Reserved | Pending:
            record = Record(owner=f"owner-{number}")
            _, outcome = await Reservations(cloud, wanted(f"m{number}"), save).ensure(record)
            return outcome

        return list(await asyncio.gather(*map(one, range(MACHINES))))


def attempts(simulator: Simulator) -> int:
    return len(simulator.control.calls(method="POST", route=RESERVE))


async def test_each_takes_another_card(simulator: Simulator) -> None:
    """As many cards as machines: nobody is refused."""
    put_cards(simulator, MACHINES)
    outcomes = await crowd(simulator)
    assert all(isinstance(outcome, Reserved) for outcome in outcomes)
    assert attempts(simulator) == MACHINES


async def test_too_few_cards_serve_as_many_as_there_are(simulator: Simulator) -> None:
    """What others are about to take is tried last, and never counted as gone."""
    put_cards(simulator, MACHINES - 4)
    outcomes = await crowd(simulator)
    assert sum(isinstance(outcome, Reserved) for outcome in outcomes) == MACHINES - 4
    assert simulator.control.ledger().totals.held == MACHINES - 4
