"""What is offered and resolved, by the command, from the simulator."""

import msgspec
import pytest

from capvco.cli.gpucheck.reports import OffersReport, TypeReport
from tests.contract.gpucheck.conftest import Desk
from vcosim.control import Action, Match
from vcosim.stock import BE, NL

PROFILES = Match(route="/gpus$")


def test_offers_of_all_locations(desk: Desk) -> None:
    """One row per model, with the type to write and what is free."""
    desk.reserve("somebody")
    ran = desk.run("-o", "json")
    report = msgspec.json.decode(ran.out, type=OffersReport)
    rows = {(r.location, r.type): (r.cards, r.free) for r in report.offers}
    assert ran.code == 0
    assert rows == {
        (BE, "Dummy Dummy GPU"): (2, 2),
        (BE, "NVIDIA A100"): (4, 3),
        (BE, "NVIDIA L4"): (2, 2),
        (NL, "Dummy Dummy GPU"): (1, 1),
        (NL, "NVIDIA A100-SXM4-80GB"): (2, 2),
        (NL, "NVIDIA L40S"): (2, 2),
        (NL, "Physical Nvidia 0x27b8"): (2, 2),
    }


def test_offers_of_one_location_as_a_table(desk: Desk) -> None:
    """Nothing of the others."""
    ran = desk.run("-location", BE)
    assert ran.code == 0
    assert "NVIDIA A100" in ran.out
    assert NL not in ran.out


def test_an_unknown_location_is_a_usage_error_that_lists_the_known(desk: Desk) -> None:
    """Not an empty table."""
    ran = desk.run("-location", "be-mac")
    assert (ran.code, ran.out) == (2, "")
    assert f'no location "be-mac"; available: {BE}, {NL}' in ran.err


@pytest.mark.parametrize(
    ("tokens", "code", "said"),
    [
        (("-type", "NVIDIA A100", "-count", "4", "-location", BE), 0, "yes: 4 x NVIDIA A100"),
        (("-type", "a100", "-count", "2"), 0, f"{NL}: yes: 2 x NVIDIA A100-SXM4-80GB"),
        (("-type", "nvidia", "-location", BE), 0, '"NVIDIA L4" also match'),
        (
            ("-type", "nvidia", "-location", BE, "-refuse-ambiguous-gpu-types"),
            3,
            "covers 2 models",
        ),
        (("-type", "A100", "-count", "5", "-location", BE), 3, "has no room for 5"),
        (("-type", "NVIDIA L4 24GB", "-location", BE), 3, "no GPU type matches"),
        (("-type", "L4", "-location", NL), 3, f"elsewhere: {BE} has "),
        (("-profile-id", "nope", "-location", BE), 3, "no GPU profile has the id"),
    ],
)
def test_dry_resolution(desk: Desk, tokens: tuple[str, ...], code: int, said: str) -> None:
    """What the controller would do, or why not; the exit code tells."""
    ran = desk.run(*tokens)
    assert (ran.code, ran.err) == (code, "")
    assert said in ran.out
    assert desk.held == 0


def test_a_plan_names_the_cards_in_order(desk: Desk) -> None:
    """The profile ids are those that would be reserved."""
    ran = desk.run("-type", "L4", "-count", "2", "-location", BE, "-o", "json")
    report = msgspec.json.decode(ran.out, type=TypeReport)
    ids = {c.id for c in desk.simulator.control.cards.list(BE) if c.model.startswith("L4")}
    assert [card.profile_id for card in report.plans[0].cards] == sorted(ids)
    assert (report.request, report.exit_code) == ('type "L4", count 2', 0)


@pytest.mark.parametrize(
    "action",
    [
        Action(kind="status", status=503),
        Action(kind="status", status=502, html=True),
        Action(kind="truncate"),
        Action(kind="lose_before"),
    ],
)
def test_a_location_that_does_not_answer_is_an_error_with_its_cause(
    desk: Desk, action: Action
) -> None:
    """The others are shown; the exit code says that something is missing."""
    match = Match(route="/gpus$", path=f"/{NL}/")
    desk.simulator.control.faults.add(action, match)
    ran = desk.run()
    assert ran.code == 1
    assert BE in ran.out
    assert f"error: {NL}: GET /customers/{{customer_id}}/locations/{{location}}/gpus" in ran.err


def test_when_no_location_can_be_had_nothing_is_shown(desk: Desk) -> None:
    """An empty table would look like an answer."""
    desk.simulator.control.faults.add(Action(kind="status", status=500), Match(route="/locations$"))
    ran = desk.run()
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("capvco-gpucheck: GET /customers/{customer_id}/locations ")


def test_refused_credentials_are_told_from_a_broken_platform(desk: Desk) -> None:
    """Exit code 2, and the secret is not repeated."""
    ran = desk.run(environment=desk.environment | {"VCO_CLIENT_SECRET": "wrong-hush"})
    assert (ran.code, ran.out) == (2, "")
    assert "hush" not in ran.err


def test_another_customer_is_refused_with_its_cause(desk: Desk) -> None:
    """A customer id that these credentials do not reach."""
    ran = desk.run(environment=desk.environment | {"VCO_CUSTOMER_ID": "other_2"})
    assert (ran.code, ran.out) == (1, "")
    assert "lack a right" in ran.err


def test_a_token_is_enough(desk: Desk) -> None:
    """By flag it works, with a word about it; the token is not on the screen."""
    environment = {k: v for k, v in desk.environment.items() if "CLIENT" not in k}
    ran = desk.run("--jwt", desk.simulator.token, "-location", BE, environment=environment)
    assert ran.code == 0
    assert "others on this machine can see secrets in flags" in ran.err
    assert desk.simulator.token not in ran.out + ran.err
