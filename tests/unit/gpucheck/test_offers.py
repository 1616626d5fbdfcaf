"""What is offered, and what the controller would take."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from capvco.cli.gpucheck.offers import Request, elsewhere, offers, plan, type_to_write
from capvco.services.gpu_types import match, models
from capvco.vco.models import GPUProfile
from tests.support.builders import LOCATION, a_profile

A100 = a_profile("a-1", model="A100 0000:3b:00.0", free=2)
A100_TOO = a_profile("a-2", model="A100 0000:86:00.0", free=1)
L4 = a_profile("l-1", model="L4 0000:17:00.0", free=1)
NL_CARD = a_profile("n-1", vendor="Physical Nvidia", model="0x27b8")
ALL = (A100, A100_TOO, L4, NL_CARD)


def test_an_offer_is_one_model_with_the_type_to_write() -> None:
    """Cards are summed, PCI addresses left out."""
    rows = {row.type: (row.cards, row.free) for row in offers(LOCATION, ALL)}
    assert rows == {
        "NVIDIA A100": (2, 3),
        "NVIDIA L4": (1, 1),
        "Physical Nvidia 0x27b8": (1, 1),
    }


def test_a_model_that_no_type_can_name_has_none() -> None:
    """Only its profile id pins it."""
    nameless = a_profile("x", vendor="", model="0000:3b:00.0")
    assert [row.type for row in offers(LOCATION, (nameless,))] == [""]


def test_a_plan_spreads_over_cards_most_free_first() -> None:
    """The order is that of the reservations."""
    made = plan(Request(type="a100", count=3), LOCATION, ALL)
    assert [card.profile_id for card in made.cards] == ["a-1", "a-1", "a-2"]
    assert [card.free for card in made.cards] == [2, 1, 1]
    assert (made.vendor, made.model, made.note) == ("NVIDIA", "A100", "")


def test_a_plan_keeps_to_one_model_and_says_what_else_matched() -> None:
    """A vendor is a type, too, and one machine gets one model."""
    made = plan(Request(type="NVIDIA", count=2), LOCATION, ALL)
    assert {card.profile_id for card in made.cards} <= {"a-1", "a-2"}
    assert made.note == (
        'took "NVIDIA A100"; "NVIDIA L4" also match: write the full vendor and model to pin one'
    )


def test_a_choice_can_be_refused_as_by_the_manager() -> None:
    """The operator's setting makes such a type an error."""
    made = plan(Request(type="NVIDIA", refuse_choice=True), LOCATION, ALL)
    assert not made.available
    assert "covers 2 models" in made.reason


def test_no_room_and_no_match_say_what_is_offered() -> None:
    """In the controller's own words."""
    full = plan(Request(type="L4", count=2), LOCATION, ALL)
    none = plan(Request(type="L40"), LOCATION, ALL)
    assert "no room for 2" in full.reason
    assert none.reason.startswith('no GPU type matches "L40" in this location; available: ')


def test_a_profile_id_pins_one_card() -> None:
    """Its room is the only one that counts."""
    assert [c.profile_id for c in plan(Request(profile_id="a-2"), LOCATION, ALL).cards] == ["a-2"]
    assert not plan(Request(profile_id="a-2", count=2), LOCATION, ALL).available
    assert not plan(Request(profile_id="z"), LOCATION, ALL).available


def test_elsewhere_names_the_other_location() -> None:
    """As the condition of a waiting machine does; a pinned card is nowhere else."""
    assert elsewhere(Request(type="L4"), "nl", ALL) == (
        'nl has "NVIDIA" (1 card(s), 1 free, e.g. model "L4")'
    )
    assert elsewhere(Request(type="H100"), "nl", ALL) == ""
    assert elsewhere(Request(profile_id="a-1"), "nl", ALL) == ""


PROFILES = st.lists(
    st.builds(
        GPUProfile,
        id=st.sampled_from(["a", "b", "c", "d", "e", "f"]),
        vendor=st.sampled_from(["NVIDIA", "Physical Nvidia", "Dummy", "A100", ""]),
        model=st.sampled_from(
            ["A100", "A100 0000:3b:00.0", "A100-SXM4-80GB", "L4", "L40S", "0x27b8", "Dummy", ""]
        ),
        available_instances=st.integers(-1, 3),
    ),
    unique_by=lambda card: card.id,
    max_size=6,
)


@given(PROFILES)
def test_the_type_to_write_gets_that_model_alone(profiles: list[GPUProfile]) -> None:
    """Whoever writes it gets what was shown, never a neighbour."""
    for model in models(profiles):
        if spelling := type_to_write(model, profiles):
            assert match(spelling, profiles) == (model,)


@given(
    PROFILES, st.sampled_from(["nvidia", "a100", "NVIDIA A100", "dummy", "b"]), st.integers(1, 5)
)
def test_a_plan_never_takes_what_is_not_free(
    profiles: list[GPUProfile], wanted: str, count: int
) -> None:
    """All or nothing, one model, no card beyond its room; and the first tier's cards only."""
    made = plan(Request(type=wanted, count=count), LOCATION, profiles)
    if not made.available:
        assert made.reason
        assert not made.cards
        return
    taken = Counter(card.profile_id for card in made.cards)
    room = {card.id: card.available_instances for card in profiles}
    assert taken.total() == count
    assert all(number <= room[card] for card, number in taken.items())
    assert any(set(taken) <= {c.id for c in model.cards} for model in match(wanted, profiles))
