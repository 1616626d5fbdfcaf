"""Least ages, from the platform's consumption."""

from urllib.parse import parse_qs

from capvco.cli.gpucheck.ages import HOUR, least_ages
from capvco.vco.cloud import VCO
from tests.contract.gpucheck.conftest import Desk
from vcosim.control import Action, Match
from vcosim.stock import BE


async def ages(desk: Desk, vco: VCO, *ids: str, wanted: float = 900) -> dict[str, float]:
    now = desk.simulator.control.clock.now()
    found, unclear = await least_ages(vco, BE, ids, now=now, wanted=wanted)
    assert unclear == ""
    return dict(found)


async def test_what_was_made_just_now_has_no_proof(desk: Desk, vco: VCO) -> None:
    """Within the hour that runs, the meter tells nothing."""
    assert await ages(desk, vco, desk.reserve("capvco-a-gpu-0")) == {}


async def test_a_least_age_grows_with_the_hours_that_are_over(desk: Desk, vco: VCO) -> None:
    """Never more than the true age."""
    vgpu = desk.reserve("capvco-a-gpu-0")
    clock = desk.simulator.control.clock
    start, seen = clock.now(), [0.0]
    for hours in (2, 3, 6, 40, 200):
        clock.advance(hours * HOUR)
        found = (await ages(desk, vco, vgpu))[vgpu]
        assert found <= clock.now() - start
        seen.append(found)
    assert seen == sorted(seen)
    assert seen[-1] == 7 * 24 * HOUR


async def test_at_every_minute_the_proof_is_true(desk: Desk, vco: VCO) -> None:
    """Whatever the minute of the hour it was made in, a proven age is no longer than the age."""
    clock = desk.simulator.control.clock
    made: dict[str, float] = {}
    for card in range(4):
        made[desk.reserve(f"capvco-a-gpu-{card}", card)] = clock.now()
        clock.advance(17 * 60)
    for _ in range(8):
        found = await ages(desk, vco, *made)
        assert all(age <= clock.now() - made[vgpu] for vgpu, age in found.items())
        clock.advance(11 * 60)
    clock.advance(2 * HOUR)
    assert (await ages(desk, vco, *made)).keys() == made.keys()


async def test_no_consumption_no_ages_and_the_cause(desk: Desk, vco: VCO) -> None:
    """That is no failure: the list itself is whole."""
    rule = Match(route="/consumption$")
    desk.simulator.control.faults.add(Action(kind="status", status=500), rule)
    found, unclear = await least_ages(vco, BE, {"x"}, now=1e9, wanted=900)
    assert found == {}
    assert unclear.startswith(f"no ages from the consumption of {BE}: GET ")


async def test_no_window_ends_within_an_hour(desk: Desk, vco: VCO) -> None:
    """A meter that charges begun hours from their start would name what did not exist yet."""
    vgpu = desk.reserve("capvco-a-gpu-0")
    desk.simulator.control.clock.advance(50 * HOUR + 1234)
    await ages(desk, vco, vgpu, wanted=1000)
    calls = desk.simulator.control.calls(method="GET", path="/customers")
    ends = [int(parse_qs(call.query)["end"][0]) for call in calls if "/consumption" in call.route]
    assert len(ends) > 3
    assert [end % HOUR for end in ends] == [0] * len(ends)
