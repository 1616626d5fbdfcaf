"""The release of one orphan, with everything that may come between."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from capvco.cli.gpucheck.holdings import Describer, Holding, listed
from capvco.cli.gpucheck.owners import Claim, Knowledge, OwnerClass, Register
from capvco.cli.gpucheck.releases import Outcome, Releaser, Result
from capvco.vco.cloud import VCO
from tests.contract.gpucheck.conftest import Desk
from vcosim.control import Action, Match
from vcosim.stock import BE

NAME = "capvco-worker-1-gpu-0"
DELETE = Match(method="DELETE", route="/vgpus/")
NOBODY = Knowledge()


class Clock:
    """Time that passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


async def seen(vco: VCO, vgpu_id: str) -> Holding:
    """Take the first look."""
    vgpus = await listed(vco, BE)
    describer = Describer(vco=vco, register=Register(NOBODY), now=0.0, min_age=0.0)
    rows, _ = await describer.describe(BE, vgpus)
    (row,) = [row for row in rows if row.vgpu_id == vgpu_id]
    assert row.owner is OwnerClass.ORPHAN
    return row


def answering(knowledge: Knowledge) -> Callable[[], Awaitable[Knowledge]]:
    async def look() -> Knowledge:
        return knowledge

    return look


async def released(
    vco: VCO, orphan: Holding, look: Callable[[], Awaitable[Knowledge]] | None = None
) -> Result:
    clock = Clock()
    releaser = Releaser(vco=vco, look=look or answering(NOBODY), clock=clock.now, sleep=clock.sleep)
    return await releaser.release(orphan)


def deletes(desk: Desk) -> int:
    return len(desk.simulator.control.calls(method="DELETE"))


async def test_an_orphan_is_released_for_good(desk: Desk, vco: VCO) -> None:
    """Its card is free again, the recycle bin empty, and nothing else is touched."""
    orphan, other = desk.reserve(NAME), desk.reserve("render", 1)
    found = await released(vco, await seen(vco, orphan))
    assert (found.outcome, found.detail) == (Outcome.RELEASED, "")
    assert desk.held_ids() == {other}
    assert {vgpu.vgpu_id for vgpu in await listed(vco, BE)} == {other}
    assert deletes(desk) == 1


async def test_an_orphan_in_the_bin_is_released_too(desk: Desk, vco: VCO) -> None:
    """It is billed there."""
    orphan = desk.reserve(NAME)
    desk.bin(orphan)
    assert (await released(vco, await seen(vco, orphan))).outcome is Outcome.RELEASED
    assert desk.held == 0


async def test_one_that_is_gone_meanwhile_is_no_error(desk: Desk, vco: VCO) -> None:
    """Somebody else released it."""
    orphan = await seen(vco, desk.reserve(NAME))
    control = desk.simulator.control
    control.hand.delete_vgpu(desk.simulator.customer_id, BE, orphan.vgpu_id, permanently=True)
    assert (await released(vco, orphan)).outcome is Outcome.GONE
    assert deletes(desk) == 0


async def test_one_that_is_attached_meanwhile_is_spared(desk: Desk, vco: VCO) -> None:
    """The second look sees the VM."""
    orphan = await seen(vco, desk.reserve(NAME))
    desk.vm_with(orphan.vgpu_id)
    found = await released(vco, orphan)
    assert found.outcome is Outcome.SPARED
    assert found.detail.startswith("foreign: attached to the VM box")
    assert (desk.held, deletes(desk)) == (1, 0)


async def test_one_that_is_attached_after_the_second_look_is_not_torn_from_its_vm(
    desk: Desk, vco: VCO
) -> None:
    """The release never detaches: the platform refuses, and that is reported."""
    orphan = await seen(vco, desk.reserve(NAME))

    async def attach_while_kubernetes_answers() -> Knowledge:
        desk.vm_with(orphan.vgpu_id)
        return NOBODY

    found = await released(vco, orphan, attach_while_kubernetes_answers)
    assert found.outcome is Outcome.FAILED
    assert "409" in found.detail
    (row,) = await listed(vco, BE)
    assert row.vm_id is not None


@pytest.mark.parametrize("by", ["id", "attempt", "name", "status"])
async def test_one_that_is_claimed_meanwhile_is_spared(desk: Desk, vco: VCO, by: str) -> None:
    """By id, by attempt, by name or by status alone."""
    orphan = await seen(vco, desk.reserve(NAME))
    claimed = Claim(
        machine="ns/m",
        name="worker-1" if by == "name" else "m",
        ids={orphan.vgpu_id: 0.0} if by == "id" else {},
        attempts=frozenset({NAME} if by == "attempt" else ()),
        hints=frozenset({orphan.vgpu_id} if by == "status" else ()),
    )
    found = await released(vco, orphan, answering(Knowledge(claims=(claimed,))))
    assert found.outcome is Outcome.SPARED
    assert (desk.held, deletes(desk)) == (1, 0)


async def test_a_doubt_at_the_second_look_spares(desk: Desk, vco: VCO) -> None:
    """Kubernetes went away between the looks."""
    orphan = await seen(vco, desk.reserve(NAME))
    found = await released(vco, orphan, answering(Knowledge(doubts=("no answer",))))
    assert found.outcome is Outcome.SPARED
    assert (desk.held, deletes(desk)) == (1, 0)


async def test_no_second_look_no_release(desk: Desk, vco: VCO) -> None:
    """The platform answers no list."""
    orphan = await seen(vco, desk.reserve(NAME))
    rule = Match(method="GET", route="/vgpus$")
    desk.simulator.control.faults.add(Action(kind="status", status=503), rule)
    found = await released(vco, orphan)
    assert found.outcome is Outcome.FAILED
    assert (desk.held, deletes(desk)) == (1, 0)


async def test_a_lost_answer_is_looked_up_not_repeated(desk: Desk, vco: VCO) -> None:
    """It was released, and one DELETE was sent."""
    orphan = await seen(vco, desk.reserve(NAME))
    desk.simulator.control.faults.add(Action(kind="lose_after"), DELETE)
    assert (await released(vco, orphan)).outcome is Outcome.RELEASED
    assert (desk.held, deletes(desk)) == (0, 1)


@pytest.mark.parametrize(
    "action", [Action(kind="lose_before"), Action(kind="status", status=504, html=True)]
)
async def test_a_release_that_may_have_happened_and_did_not_is_unconfirmed(
    desk: Desk, vco: VCO, action: Action
) -> None:
    """Still listed when patience ends: said so, with what to do."""
    orphan = await seen(vco, desk.reserve(NAME))
    desk.simulator.control.faults.add(action, DELETE)
    found = await released(vco, orphan)
    assert found.outcome is Outcome.UNCONFIRMED
    assert found.detail == f"{BE} still lists it after 60 s; look again with --list"
    assert (desk.held, deletes(desk)) == (1, 1)


async def test_a_refusal_says_why(desk: Desk, vco: VCO) -> None:
    """In the platform's words."""
    orphan = await seen(vco, desk.reserve(NAME))
    rule = Action(kind="status", status=403, html=False)
    desk.simulator.control.faults.add(rule, DELETE)
    found = await released(vco, orphan)
    assert found.outcome is Outcome.FAILED
    assert "403" in found.detail
    assert desk.held == 1


async def test_a_list_that_lags_is_waited_for(desk: Desk, vco: VCO) -> None:
    """Released is what a later list proves, not what the DELETE answers."""
    orphan = await seen(vco, desk.reserve(NAME))
    control = desk.simulator.control

    async def lag_from_now_on() -> Knowledge:
        control.faults.add(Action(kind="lag", calls=5, lists="/vgpus$"), DELETE, times=1)
        return NOBODY

    assert (await released(vco, orphan, lag_from_now_on)).outcome is Outcome.RELEASED
    (delete,) = control.calls(method="DELETE")
    after = control.calls(method="GET", after=delete.seq)
    assert sum(call.route.endswith("/vgpus") for call in after) > 5
    assert desk.held == 0


async def test_an_id_that_another_name_has_now_is_spared(desk: Desk, vco: VCO) -> None:
    """What was confirmed by a person was something else."""
    orphan = await seen(vco, desk.reserve(NAME))
    shown = msgspec.structs.replace(orphan, name="capvco-worker-2-gpu-0")
    found = await released(vco, shown)
    assert (found.outcome, deletes(desk)) == (Outcome.SPARED, 0)
