"""A requested GPU type against the cards of a location."""

import itertools

import pytest

from capvco.services.gpu_types import (
    Choice,
    Unavailable,
    choose,
    match,
    models,
    offers,
    tokens,
    without_pci,
)
from capvco.vco.models import GPUProfile
from tests.support.builders import a_profile

EVERYTHING = (
    a_profile("a100-80-1", model="A100-SXM4-80GB 0000:3b:00.0", free=1),
    a_profile("a100-80-2", model="A100-SXM4-80GB 0000:5e:00.0", free=4),
    a_profile("a100-40", model="A100-PCIE-40GB 0000:af:00.0", free=3),
    a_profile("a10", model="A10 0000:b0:00.0", free=1),
    a_profile("a10g", model="A10G 0000:b1:00.0", free=1),
    a_profile("l4", model="L4 0000:d8:00.0", free=2),
    a_profile("l40", model="L40 0000:d9:00.0", free=1),
    a_profile("l40s", model="L40S 0000:da:00.0", free=1, description="NVIDIA T4"),
    a_profile("hex", vendor="Physical Nvidia", model="0x27b8", free=1, description="NVIDIA L4"),
    a_profile("dummy-1", vendor="Dummy", model="Dummy GPU 0000:f1:e1.0", free=8),
    a_profile("dummy-2", vendor="Dummy", model="Dummy GPU 0000:f1:e2.0", free=8),
)
A100S = {"a100-80-1", "a100-80-2", "a100-40"}
A100_80S = {"a100-80-1", "a100-80-2"}
NVIDIA = A100S | {"a10", "a10g", "l4", "l40", "l40s"}
DUMMIES = {"dummy-1", "dummy-2"}


def matching(requested: str, profiles: tuple[GPUProfile, ...] = EVERYTHING) -> set[str]:
    return {card.id for model in match(requested, profiles) for card in model.cards}


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        # Case, hyphens and blanks do not matter.
        ("a100", A100S),
        ("A100", A100S),
        ("A 100", A100S),
        ("A-100", A100S),
        ("NVIDIA A100", A100S),
        ("nvidia a100", A100S),
        ("nvidia-a100", A100S),
        ("NvidiaA100", A100S),
        ("  NVIDIA \t A100 ", A100S),
        ("NVIDIA\u2013A100", A100S),
        # A model without the address of its card.
        ("NVIDIA A100-SXM4-80GB", A100_80S),
        ("a100 sxm4 80 gb", A100_80S),
        ("A100SXM4-80GB", A100_80S),
        ("NVIDIA A100 PCIe", {"a100-40"}),
        ("40GB", {"a100-40"}),
        ("SXM4", A100_80S),
        # With it: one card.
        ("NVIDIA A100-SXM4-80GB 0000:3b:00.0", {"a100-80-1"}),
        ("A100-SXM4-80GB 0000:5E:00.0", {"a100-80-2"}),
        ("Dummy Dummy GPU 0000:f1:e1.0", {"dummy-1"}),
        # Digits match whole, and so do the letters beside them.
        ("L4", {"l4"}),
        ("NVIDIA L4", {"l4"}),
        ("L40", {"l40"}),
        ("nvidia-l-40", {"l40"}),
        ("L40S", {"l40s"}),
        ("L40-S", {"l40s"}),
        ("l 40 s", {"l40s"}),
        ("A10", {"a10"}),
        ("A 10", {"a10"}),
        ("A10G", {"a10g"}),
        ("A10 0", set()),
        ("NVIDIA A10 0", set()),
        ("NVIDIA A1 00", set()),
        ("A1", set()),
        ("100", set()),
        ("A100-SXM48-0GB", set()),
        ("NVIDIA A10 G4", set()),
        # A vendor.
        ("NVIDIA", NVIDIA),
        ("nvidia", NVIDIA),
        ("Dummy", DUMMIES),
        ("Dummy GPU", DUMMIES),
        ("gpu", DUMMIES),
        # The card of the page on GPUs.
        ("Physical Nvidia", {"hex"}),
        ("physical-nvidia", {"hex"}),
        ("PHYSICALNVIDIA", {"hex"}),
        ("0x27b8", {"hex"}),
        ("0X27B8", {"hex"}),
        ("Physical Nvidia 0x27b8", {"hex"}),
        ("Nvidia 0x27b8", {"hex"}),
        ("Physical", {"hex"}),
        ("27b8", set()),
        ("0x27", set()),
        ("0x27b", set()),
        ("x27b8", set()),
        # Letters in part, where that leaves one model.
        ("phys", {"hex"}),
        ("ph-ys", {"hex"}),
        ("sical Nv", {"hex"}),
        ("sicalnv", {"hex"}),
        ("dum", DUMMIES),
        ("vidia L40", {"l40"}),
        ("idia-L4", {"l4"}),
        ("NVIDIA A100-S", A100_80S),
        ("vidi", set()),  # nine models
        ("NVIDIA A", set()),  # four models
        ("ph", set()),  # too short to mean anything
        ("GB", set()),
        # Never the address of a card, never the description.
        ("3b", set()),
        ("00", set()),
        ("0000", set()),
        ("f1", set()),
        ("e1.0", set()),
        ("0000:3b:00.0", set()),
        ("T4", set()),
        ("NVIDIA T4", set()),
        # Nothing that is a name.
        ("-", set()),
        ("", set()),
        ("?!", set()),
        (".*", set()),
        ("H100", set()),
    ],
)
def test_table(requested: str, expected: set[str]) -> None:
    """One request, in a location that offers everything."""
    assert matching(requested) == expected


def test_the_description_is_no_name() -> None:
    """The product's page: a card described as NVIDIA L4 is not one by that name."""
    cards = (a_profile("hex", vendor="Physical Nvidia", model="0x27b8", description="NVIDIA L4"),)
    assert matching("NVIDIA L4", cards) == set()


@pytest.mark.parametrize("requested", ["nvidia-a100", "A100", "a 100", "NVIDIA A100"])
def test_a_stranger_does_not_serve(requested: str) -> None:
    """A card of another model is never taken instead."""
    cards = tuple(
        a_profile(name, model=f"{name} 0000:3b:00.0")
        for name in ("A1000", "A10", "A100X", "GA100", "A30", "H100", "L100", "AA100", "A 1 00")
    )
    assert matching(requested, cards) == set()


@pytest.mark.parametrize("requested", ["NVIDIA A10 0", "vidia A1-00", "NVIDIA A10", "NVIDIA A1"])
def test_two_numbers_are_not_one(requested: str) -> None:
    """Digits that something parts do not make up a longer number, nor a part of one."""
    assert matching(requested, (a_profile(model="A100 0000:3b:00.0"),)) == set()


def test_profile_id_is_taken_to_the_byte() -> None:
    """A profile id is the most specific name, and no other spelling of it counts."""
    cards = (a_profile("L4-Card", model="T4"), a_profile("other", model="L4-Card"))
    assert matching("L4-Card", cards) == {"L4-Card"}
    assert matching("l4-card", cards) == {"other"}


def test_a_partial_name_of_two_models_is_none() -> None:
    """A name that could mean two things means nothing; a name for two cards of one model does."""
    one = a_profile("1", vendor="Physical Nvidia", model="0x27b8")
    same = a_profile("2", vendor="Physical Nvidia", model="0x27b8")
    other = a_profile("3", vendor="Physical Amd", model="0x74a1")
    assert matching("phys", (one, same)) == {"1", "2"}
    assert matching("phys", (one, same, other)) == set()


def test_an_exact_name_beats_a_part_of_others() -> None:
    """More specific first: a vendor of that name hides models that merely contain it."""
    exact = a_profile("1", vendor="Tesla", model="T4")
    word = a_profile("2", vendor="NVIDIA", model="Tesla T4")
    assert matching("tesla", (word, exact)) == {"1"}
    assert matching("tesla", (word,)) == {"2"}
    assert matching("T4", (word, exact)) == {"1"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Dummy GPU 0000:f1:e1.0", "Dummy GPU"),
        ("Dummy GPU f1:e1.0", "Dummy GPU"),
        ("A100-SXM4-80GB 00000000:3B:00.0", "A100-SXM4-80GB"),
        ("A100 (0000:3b:00.0)", "A100"),
        ("A100 [3b:00.0]", "A100"),
        ("A100 @ 0000:3b:00.0 ", "A100"),
        ("L40S-0000:3b:00.0", "L40S"),
        ("0000:3b:00.0", ""),
        ("0x27b8", "0x27b8"),
        ("A100 80:40", "A100 80:40"),
        ("A100 0000:3b:00.0 rev 2", "A100 0000:3b:00.0 rev 2"),
        ("", ""),
    ],
)
def test_without_pci(model: str, expected: str) -> None:
    """Only the trailing address of a card is cut off."""
    assert without_pci(model) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A100-SXM4-80GB", ("a", "100", "sxm", "4", "80", "gb")),
        ("NVIDIA A 100", ("nvidiaa", "100")),
        ("A10 0", ("a", "10", "0")),
        ("0x27b8", ("0", "x", "27", "b", "8")),
        ("rtx_6000", ("rtx", "_", "6000")),
        (" - ", ()),
    ],
)
def test_tokens(text: str, expected: tuple[str, ...]) -> None:
    """Runs of letters and of digits; blanks and hyphens part digits only."""
    assert tokens(text) == expected


def test_cards_are_grouped_by_vendor_and_model() -> None:
    """One model per spelling of it, whatever its cards; the sums are those of its cards."""
    found = models(EVERYTHING)
    assert [(m.label, len(m.cards), m.free) for m in found] == [
        ("Dummy Dummy GPU", 2, 16),
        ("NVIDIA A10", 1, 1),
        ("NVIDIA A10G", 1, 1),
        ("NVIDIA A100-PCIE-40GB", 1, 3),
        ("NVIDIA A100-SXM4-80GB", 2, 5),
        ("NVIDIA L4", 1, 2),
        ("NVIDIA L40", 1, 1),
        ("NVIDIA L40S", 1, 1),
        ("Physical Nvidia 0x27b8", 1, 1),
    ]
    spelled = (
        a_profile("1", vendor="nvidia", model="a100 3b:00.0"),
        a_profile("2", vendor="NVIDIA", model="A-100"),
    )
    assert [(m.label, len(m.cards)) for m in models(spelled)] == [("NVIDIA A-100", 2)]


def test_less_than_nothing_is_nothing() -> None:
    """A platform that counts below zero does not take from the other cards' sum."""
    cards = (a_profile("1", free=-2), a_profile("2", model="A100-SXM4-80GB", free=3))
    (model,) = models(cards)
    assert model.free == 3


# Messages, word for word as the product's page has them.


def refusal(requested: str, *cards: GPUProfile, count: int = 1, held: str = "") -> str:
    with pytest.raises(Unavailable) as caught:
        choose(requested, cards, count, held=held)
    assert not caught.value.ambiguous
    return str(caught.value)


HEX = (
    a_profile("1", vendor="Physical Nvidia", model="0x27b8", free=1, description="NVIDIA L4"),
    a_profile("2", vendor="Physical Nvidia", model="0x27b8", free=0, description="NVIDIA L4"),
)


def test_message_for_a_name_that_matches_nothing() -> None:
    """The words of the product's page."""
    assert refusal("NVIDIA L4", *HEX) == (
        'no GPU type matches "NVIDIA L4" in this location; available: "Physical Nvidia"'
        ' (2 card(s), 1 free, e.g. model "0x27b8")'
    )


def test_message_leaves_out_the_addresses() -> None:
    """Cards of one model are one entry, under the model's name alone."""
    cards = EVERYTHING[-2:]
    assert refusal("NVIDIA A100", *cards) == (
        'no GPU type matches "NVIDIA A100" in this location; available: "Dummy" (2 card(s),'
        ' 16 free, e.g. model "Dummy GPU")'
    )


def test_message_where_nothing_is_offered() -> None:
    """A location without GPUs says so."""
    assert refusal("NVIDIA A100") == (
        'no GPU type matches "NVIDIA A100" in this location; available: no GPUs at all'
    )


def test_message_where_there_is_no_room() -> None:
    """The type exists: the count and what is free are what matters."""
    assert refusal("Physical Nvidia", *HEX, count=2) == (
        'the GPU type "Physical Nvidia" has no room for 2 in this location: 1 free on cards of one'
        ' model; available: "Physical Nvidia" (2 card(s), 1 free, e.g. model "0x27b8")'
    )


def test_message_where_the_held_model_has_no_room() -> None:
    """A machine that holds a card of one model is told about that model."""
    cards = (
        a_profile("1", model="A100-SXM4-80GB", free=0),
        a_profile("2", model="A100-PCIE-40GB", free=5),
    )
    assert refusal("a100", *cards, held="NVIDIA A100-SXM4-80GB").startswith(
        'the GPU type "a100" has no room for 1 more of "NVIDIA A100-SXM4-80GB" in this location:'
        " 0 free on cards of one model; available: "
    )


def test_room_is_not_added_up_over_models() -> None:
    """One machine gets cards of one model: three and one are not four."""
    cards = (a_profile("1", model="A100-PCIE-40GB", free=3), a_profile("2", model="A100", free=1))
    assert "has no room for 4 in this location: 3 free" in refusal("nvidia", *cards, count=4)


def test_nearest_names_come_first() -> None:
    """The offer that looks most like the request is read first."""
    told = offers(EVERYTHING, near="NVIDIA L40 S PCIe")
    assert told.startswith('"NVIDIA" (1 card(s), 1 free, e.g. model "L40S")')
    assert offers(EVERYTHING, near="dumy").startswith('"Dummy"')
    assert offers(EVERYTHING, near="phisical nvidia").startswith('"Physical Nvidia"')
    assert refusal("A101", *EVERYTHING).partition("available: ")[2].startswith('"NVIDIA"')


def test_offers_without_a_request_come_by_name() -> None:
    """Nothing to be near to: the order of names."""
    assert offers(EVERYTHING[:3]) == (
        '"NVIDIA" (1 card(s), 3 free, e.g. model "A100-PCIE-40GB"),'
        ' "NVIDIA" (2 card(s), 5 free, e.g. model "A100-SXM4-80GB")'
    )


def test_offers_do_not_depend_on_the_order_of_the_list() -> None:
    """The same location always reads the same."""
    cards = EVERYTHING[5:9]
    assert len({offers(order, near="L4") for order in itertools.permutations(cards)}) == 1


# The choice of one model.


def test_most_free_model_first() -> None:
    """Of several models with enough room, the emptiest; the note names the others."""
    choice = choose("a100", EVERYTHING, 1)
    assert choice.model.label == "NVIDIA A100-SXM4-80GB"
    assert choice.note == (
        'took "NVIDIA A100-SXM4-80GB"; "NVIDIA A100-PCIE-40GB" also match: write the full vendor'
        " and model to pin one"
    )


def test_names_decide_where_room_does_not() -> None:
    """Equal room: the first by name, wherever it is in the list."""
    cards = (a_profile("1", model="L40S"), a_profile("2", model="A100"), a_profile("3", model="T4"))
    for order in itertools.permutations(cards):
        assert choose("NVIDIA", order, 1).model.label == "NVIDIA A100"


def test_enough_room_comes_before_the_name() -> None:
    """A model without room for the count is no candidate."""
    cards = (a_profile("1", model="A100", free=1), a_profile("2", model="L4", free=2))
    assert choose("NVIDIA", cards, 2).model.label == "NVIDIA L4"


def test_a_choice_of_one_has_no_note() -> None:
    """Nothing was chosen, so nothing is told."""
    choice = choose("L4", EVERYTHING, 1)
    assert (choice.note, choice.others) == ("", ())


def test_emptiest_card_first() -> None:
    """Reservations spread over cards; equal cards in the order of their ids."""
    cards = (
        a_profile("c", model="L4 0000:01:00.0", free=2),
        a_profile("b", model="L4 0000:02:00.0", free=2),
        a_profile("a", model="L4 0000:03:00.0", free=1),
        a_profile("d", model="L4 0000:04:00.0", free=5),
    )
    assert [card.id for card in choose("L4", cards, 1).cards] == ["d", "b", "c", "a"]


def test_held_model_is_kept() -> None:
    """A machine that holds a card never gets one of another model beside it."""
    held = "NVIDIA A100-PCIE-40GB"
    assert choose("a100", EVERYTHING, 1, held=held).model.label == held
    assert choose("a100", EVERYTHING, 1, held=held.lower()).model.label == held
    with pytest.raises(Unavailable):
        choose("a100", EVERYTHING, 4, held=held)
    with pytest.raises(Unavailable):
        choose("a100", EVERYTHING, 1, held="NVIDIA A100-SXM2-16GB")


def test_choice_can_be_refused() -> None:
    """An operator may forbid to choose: the message has the names to choose from."""
    with pytest.raises(Unavailable) as caught:
        choose("a100", EVERYTHING, 1, refuse_choice=True)
    assert caught.value.ambiguous
    assert str(caught.value) == (
        'the GPU type "a100" covers 2 models in this location: "NVIDIA A100-PCIE-40GB",'
        ' "NVIDIA A100-SXM4-80GB"; write one of them'
    )


def test_each_refused_name_can_be_written() -> None:
    """What the refusal offers is accepted, word for word."""
    for model in match("NVIDIA", EVERYTHING):
        assert choose(model.label, EVERYTHING, 1, refuse_choice=True).model.label == model.label


def test_no_choice_is_refused_to_a_machine_that_has_chosen() -> None:
    """The setting came after the first card: the machine stays with its model."""
    held = "NVIDIA A100-PCIE-40GB"
    choice = choose("a100", EVERYTHING, 1, held=held, refuse_choice=True)
    assert isinstance(choice, Choice)
    assert choice.model.label == held


def test_an_id_pins_its_card() -> None:
    """A profile id leaves one card, whatever others of its model have free."""
    choice = choose("a100-80-1", EVERYTHING, 1)
    assert [card.id for card in choice.cards] == ["a100-80-1"]
    assert "has no room for 2" in refusal("a100-80-1", *EVERYTHING, count=2)
