"""What the command foretells is what the controller's service then does."""

import pytest

from capvco.api.v1beta1.machine import GPURequest
from capvco.cli.gpucheck.offers import Request, plan
from capvco.services.cloud import Cloud, Waits
from capvco.services.gpu_reservations import Reservations, Reserved, Wanted
from capvco.services.inventory import Inventory
from capvco.services.outcome import Pending
from capvco.services.record import Record
from capvco.vco.cloud import VCO
from tests.contract.gpucheck.conftest import Desk
from vcosim.stock import BE, NL


async def reserved(vco: VCO, location: str, request: GPURequest) -> tuple[Record, object]:
    """Let the controller's service reserve."""

    async def save(_: Record) -> None:
        return

    wanted = Wanted(machine="worker-1", location=location, cloudspace_id="cs", request=request)
    cloud = Cloud(vco, Inventory(vco), Waits())
    return await Reservations(cloud, wanted, save).ensure(Record(owner="o"))


@pytest.mark.parametrize(
    ("location", "type_", "count"),
    [
        (BE, "NVIDIA A100", 1),
        (BE, "a100", 3),
        (BE, "nvidia", 2),
        (BE, "dummy", 2),
        (BE, "L4", 3),
        (NL, "A100", 2),
        (NL, "L4", 1),
        (NL, "phys", 2),
    ],
)
async def test_the_plan_is_what_happens(
    desk: Desk, vco: VCO, location: str, type_: str, count: int
) -> None:
    """The same cards in the same order, the same note, or the same words why not."""
    for number, card in enumerate(desk.simulator.control.cards.list(location)):
        desk.simulator.control.cards.set(location, card.id, 1 + number % 3)
    desk.reserve("somebody", 1, location)
    foretold = plan(Request(type=type_, count=count), location, await vco.gpus.profiles(location))
    record, outcome = await reserved(vco, location, GPURequest(type=type_, count=count))
    assert [slot.profile_id for slot in record.gpus] == [c.profile_id for c in foretold.cards]
    if isinstance(outcome, Reserved):
        assert foretold.available
        assert {slot.model for slot in record.gpus} == {f"{foretold.vendor} {foretold.model}"}
        assert outcome.note == foretold.note
    else:
        assert isinstance(outcome, Pending)
        assert not foretold.available
        assert outcome.message.startswith(foretold.reason)
