"""What holds of every request in every location."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

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
from tests.support.properties import always

# Few words, so that requests hit, nearly hit, and hit several.
LETTERS = st.sampled_from(["nvidia", "a", "l", "s", "x", "gpu", "physical", "phys", "sxm", "gb"])
DIGITS = st.sampled_from(["4", "40", "100", "10", "1", "0", "00", "80"])
GAP = st.sampled_from(["", "", " ", "-", "  ", " - ", "\u2011", "\t"])
REAL_GAP = st.sampled_from([" ", "-", " -", "\t"])
ADDRESS = st.sampled_from(["", " 0000:3b:00.0", " 0000:f1:e1.0", " 40:10.0", " (3b:00.0)"])


def is_number(token: str) -> bool:
    return token.isdecimal()


@st.composite
def spellings(draw: st.DrawFn, parts: list[str]) -> str:
    """Spell a list of runs; digits are parted from digits, letters from letters as it comes."""
    spelled, previous = draw(GAP), ""
    for part in parts:
        if previous:
            both = is_number(previous) and is_number(part)
            spelled += draw(REAL_GAP if both else GAP)
        if is_number(part):
            spelled += part
        else:
            spelled += "".join(letter.upper() if draw(st.booleans()) else letter for letter in part)
        previous = part
    return spelled + draw(GAP)


NAMES = st.lists(st.one_of(LETTERS, DIGITS), min_size=1, max_size=3).flatmap(spellings)


@st.composite
def locations(draw: st.DrawFn) -> tuple[GPUProfile, ...]:
    """Make the cards of a location, each with an id of its own."""
    count = draw(st.integers(0, 6))
    return tuple(
        a_profile(
            f"id:{number}",
            vendor=draw(st.one_of(LETTERS, NAMES)),
            model=draw(NAMES) + draw(ADDRESS),
            free=draw(st.integers(-1, 4)),
            description=draw(NAMES),
        )
        for number in range(count)
    )


@st.composite
def parts_for(draw: st.DrawFn, cards: tuple[GPUProfile, ...]) -> list[str]:
    """Make a request: of any words, or of some that a card's name has, perhaps cut short."""
    if not cards or draw(st.booleans()):
        return draw(st.lists(st.one_of(LETTERS, DIGITS), min_size=1, max_size=4))
    card = draw(st.sampled_from(cards))
    words = re.findall(r"[a-z]+|\d+", f"{card.vendor} {without_pci(card.model)}".lower())
    first = draw(st.integers(0, len(words) - 1))
    chosen = words[first : draw(st.integers(first + 1, len(words)))]
    cut = draw(st.sampled_from([0, 0, 1, 2]))
    return [chosen[0][cut:] or chosen[0], *chosen[1:]]


Cards = tuple[GPUProfile, ...]
SITUATIONS = locations().flatmap(
    lambda cards: st.tuples(parts_for(cards).flatmap(spellings), st.just(cards))
)
TWO_SPELLINGS = locations().flatmap(
    lambda cards: st.tuples(
        parts_for(cards).flatmap(lambda parts: st.tuples(spellings(parts), spellings(parts))),
        st.just(cards),
    )
)


def outcome(
    requested: str,
    cards: tuple[GPUProfile, ...],
    count: int = 1,
    *,
    held: str = "",
    refuse_choice: bool = False,
) -> Choice | bool:
    """Choose; a refusal is told by whether it is for a choice that is forbidden."""
    try:
        return choose(requested, cards, count, held=held, refuse_choice=refuse_choice)
    except Unavailable as error:
        return error.ambiguous


@always
@given(TWO_SPELLINGS, st.integers(1, 4))
def test_spellings_resolve_alike(asked: tuple[tuple[str, str], Cards], count: int) -> None:
    """Case, hyphens and blanks do not matter, except between two runs of digits."""
    (one, other), cards = asked
    assert match(one, cards) == match(other, cards)
    assert outcome(one, cards, count) == outcome(other, cards, count)
    assert offers(cards, near=one) == offers(cards, near=other)


@always
@given(SITUATIONS)
def test_letters_may_be_parted(asked: tuple[str, Cards]) -> None:
    """Between two letters a blank does not matter either."""
    requested, cards = asked
    parted = re.sub(r"(?<=[a-zA-Z])(?=[a-zA-Z])", "-", requested)
    assert match(parted, cards) == match(requested, cards)


@always
@given(SITUATIONS, st.integers(1, 4), locations(), st.booleans())
def test_a_foreign_card_changes_nothing(
    asked: tuple[str, Cards], count: int, strangers: Cards, refuse: bool
) -> None:
    """A card that the request does not match by itself never changes what is chosen."""
    requested, cards = asked
    renamed = tuple(
        a_profile(f"other:{s.id}", vendor=s.vendor, model=s.model, free=s.available_instances)
        for s in strangers
        if not match(requested, [s])
    )
    assume(renamed)
    before = outcome(requested, cards, count, refuse_choice=refuse)
    assert outcome(requested, renamed + cards, count, refuse_choice=refuse) == before


@always
@given(SITUATIONS, st.integers(1, 4), st.data())
def test_the_order_of_the_list_changes_nothing(
    asked: tuple[str, Cards], count: int, data: st.DataObject
) -> None:
    """The same location, listed in another order, yields the same choice and the same words."""
    requested, cards = asked
    order = tuple(data.draw(st.permutations(cards)))
    assert match(requested, order) == match(requested, cards)
    assert outcome(requested, order, count) == outcome(requested, cards, count)
    assert offers(order, near=requested) == offers(cards, near=requested)


@always
@given(SITUATIONS)
def test_digits_match_whole(asked: tuple[str, Cards]) -> None:
    """Each run of digits of a request is a whole run of digits of every card that it matches."""
    requested, cards = asked
    wanted = {token for token in tokens(requested) if is_number(token)}
    for model in match(requested, cards):
        for card in model.cards:
            runs = re.findall(r"\d+", f"{card.vendor} {card.model}")
            assert wanted <= set(runs)


@always
@given(SITUATIONS)
def test_a_match_is_readable_in_the_name(asked: tuple[str, Cards]) -> None:
    """What matches can be read, in one piece, in vendor and model as reported."""
    requested, cards = asked
    wanted = re.sub(r"[\s\-\u2011]", "", requested).lower()
    for model in match(requested, cards):
        for card in model.cards:
            name = re.sub(r"[\s\-\u2011]", "", f"{card.vendor}{card.model}").lower()
            assert wanted in name


@always
@given(SITUATIONS, st.integers(1, 6))
def test_a_choice_has_room(asked: tuple[str, Cards], count: int) -> None:
    """A choice has the count free, on one matching model; a refusal means there is none."""
    requested, cards = asked
    found = match(requested, cards)
    result = outcome(requested, cards, count)
    if isinstance(result, bool):
        assert all(model.free < count for model in found)
        return
    assert result.model in found
    assert result.model.free >= count
    assert set(result.others) == set(found) - {result.model}
    assert len(models(result.cards)) == 1
    assert bool(result.note) == (len(found) > 1)
    free = [card.available_instances for card in result.cards]
    assert free == sorted(free, reverse=True)


@always
@given(SITUATIONS, st.integers(1, 3), st.data())
def test_what_is_held_sticks(asked: tuple[str, Cards], count: int, data: st.DataObject) -> None:
    """While some card of the held model is offered, no other model is ever chosen."""
    requested, cards = asked
    found = match(requested, cards)
    assume(found)
    held = data.draw(st.sampled_from(found)).label
    result = outcome(requested, cards, count, held=held, refuse_choice=True)
    if isinstance(result, bool):
        assert not result
        same = [m for m in found if tokens(m.label) == tokens(held)]
        assert all(m.free < count for m in same)
    else:
        assert tokens(result.model.label) == tokens(held)


@always
@given(locations())
def test_offers_account_for_every_card(cards: Cards) -> None:
    """The sums over all models are those of the location."""
    grouped = models(cards)
    assert sorted(c.id for m in grouped for c in m.cards) == sorted(c.id for c in cards)
    assert sum(m.free for m in grouped) == sum(max(c.available_instances, 0) for c in cards)
    told = [int(number) for number in re.findall(r"(\d+) free", offers(cards))]
    assert sum(told) == sum(m.free for m in grouped)


@always
@given(st.text(max_size=20), locations())
def test_any_text_is_answered(requested: str, cards: Cards) -> None:
    """Whatever is written: what matches nothing is refused with a message that repeats it."""
    assume(not match(requested, cards))
    with pytest.raises(Unavailable, match=re.escape(f'"{requested}"')):
        choose(requested, cards, 1)
