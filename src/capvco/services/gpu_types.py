"""A requested GPU type against the profiles of a location: which cards, or why none.

Pure, and shared by everything that names a GPU. The rules, from the product's GPU page:

* Tiers, most specific first: a profile id (byte-exact); vendor and model, the model, or the vendor,
  first as reported (so a full model string pins one card) and then without the trailing PCI
  address; a run of whole words of "<vendor> <model>"; and last, letters in part.
* Case, hyphens and blanks do not matter. Digits match only as a whole (``L4`` is not ``L40S``,
  ``A10`` is not ``A100``), and nothing matches across a boundary that a reader would not see
  (``L40`` is not ``L40S``).
* The last tier counts only if it leaves exactly one model.
* The description of a profile is never consulted, nor are the hex digits of a PCI address.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Protocol

from msgspec import Struct

_PCI = re.compile(
    r"[\s(\[@\-]*\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-9a-f]\b[\s)\]]*$",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W\d_]+|\d+|[^\w\s\-\u2010-\u2015]|_")
_WORD = re.compile(r"[^\s\-\u2010-\u2015]+")
_GAP = r"[\s\-\u2010-\u2015]"
_PARTIAL_LETTERS = 3
# Where there are 3,000 cards, comparing them all takes 80 ms of a machine's time. The machines of a
# pool ask the same of the same list, and lists that follow each other name the same cards.
_LISTS, _TEXTS = 8, 32_768
_STUBS = frozenset({"dummy", "stub", "placeholder"})

Tokens = tuple[str, ...]


class Profile(Protocol):
    """A GPU profile as a location reports it: one physical card."""

    @property
    def id(self) -> str: ...  # noqa: D102 - fields are the platform's
    @property
    def vendor(self) -> str: ...  # noqa: D102
    @property
    def model(self) -> str: ...  # noqa: D102
    @property
    def available_instances(self) -> int: ...  # noqa: D102


class Model(Struct, frozen=True, dict=True):
    """All cards of one vendor and model in a location."""

    vendor: str
    name: str
    cards: tuple[Profile, ...]

    @cached_property
    def free(self) -> int:
        """How many vGPUs can be reserved, over all cards."""
        return sum(max(card.available_instances, 0) for card in self.cards)

    @property
    def label(self) -> str:
        """Vendor and model as a person writes them."""
        return " ".join(part for part in (self.vendor.strip(), self.name) if part)

    @property
    def offer(self) -> str:
        """One entry of a list of what a location offers."""
        return (
            f'"{self.vendor}" ({len(self.cards)} card(s), {self.free} free,'
            f' e.g. model "{self.name}")'
        )


class Choice(Struct, frozen=True):
    """The model that a machine gets, and what else would have matched."""

    model: Model
    others: tuple[Model, ...]

    @property
    def cards(self) -> tuple[Profile, ...]:
        """The cards in the order to try them: most free first, ties by id."""
        return tuple(sorted(self.model.cards, key=lambda c: (-c.available_instances, c.id)))

    @property
    def note(self) -> str:
        """Say which model was taken of several, and how to pin one; empty without a choice."""
        if not self.others:
            return ""
        names = ", ".join(f'"{m.label}"' for m in self.others)
        return (
            f'took "{self.model.label}"; {names} also match: write the full vendor and model'
            " to pin one"
        )


class Unavailable(Exception):  # noqa: N818 - an outcome with a message, raised to its one catcher
    """No card can serve the request; the message is for the user."""

    def __init__(self, message: str, *, ambiguous: bool = False) -> None:
        """Keep whether the cause is a choice that the operator forbids."""
        super().__init__(message)
        self.ambiguous = ambiguous


@lru_cache(maxsize=_TEXTS)
def without_pci(model: str) -> str:
    """Return a model without the PCI address of its card."""
    return _PCI.sub("", model).strip()


def is_stub(label: str) -> bool:
    """Say whether vendor and model name a placeholder for tests instead of hardware."""
    return not _STUBS.isdisjoint(word.casefold() for word in _WORD.findall(label))


@lru_cache(maxsize=_TEXTS)
def tokens(text: str) -> Tokens:
    """Split into runs of letters and of digits, folded; letters that only a blank parts are one.

    Two spellings that differ by case, hyphens or blanks yield the same tokens. Digits are never
    glued: ``A10 0`` is not ``A100``.
    """
    glued: list[str] = []
    for token in _TOKEN.findall(text.casefold()):
        if glued and _is_letters(glued[-1]) and _is_letters(token):
            glued[-1] += token
        else:
            glued.append(token)
    return tuple(glued)


def _is_letters(token: str) -> bool:
    # What the expression takes for letters: str.isalpha() would leave out a few, such as ².
    return token[0].isalnum() and not token[0].isdecimal()


def models(profiles: Iterable[Profile]) -> tuple[Model, ...]:
    """Group the cards of a location by vendor and model, in the order of their names."""
    groups: dict[tuple[Tokens, Tokens], list[Profile]] = {}
    for card in profiles:
        key = (tokens(card.vendor), tokens(without_pci(card.model)))
        groups.setdefault(key, []).append(card)
    return tuple(_model(groups[key]) for key in sorted(groups))


def _model(cards: Sequence[Profile]) -> Model:
    ordered = tuple(sorted(cards, key=lambda card: card.id))
    spelled = min(ordered, key=lambda card: (card.vendor, without_pci(card.model)))
    return Model(spelled.vendor, without_pci(spelled.model), ordered)


def match(requested: str, profiles: Iterable[Profile]) -> tuple[Model, ...]:
    """Return the models, with their matching cards, of the first tier that has any."""
    return _match(requested, _OneList(tuple(profiles)))


class _OneList:
    """A list that equals itself alone: to compare two costs what comparing their cards costs."""

    def __init__(self, cards: tuple[Profile, ...]) -> None:
        self.cards = cards

    def __hash__(self) -> int:
        return id(self.cards)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OneList) and self.cards is other.cards


@lru_cache(maxsize=_LISTS)
def _match(requested: str, offered: _OneList) -> tuple[Model, ...]:
    everything, wanted = offered.cards, tokens(requested)
    by_id = [card for card in everything if card.id == requested]
    if by_id or not wanted:
        return models(by_id)
    for tier in (_equals_reported, _equals_stripped, _words):
        if cards := [card for card in everything if tier(wanted, card)]:
            return models(cards)
    partial = models(card for card in everything if _letters_in_part(wanted, card))
    return partial if len(partial) == 1 else ()


def _equals_reported(wanted: Tokens, card: Profile) -> bool:
    return wanted in {
        tokens(f"{card.vendor} {card.model}"),
        tokens(card.model),
        tokens(card.vendor),
    }


def _equals_stripped(wanted: Tokens, card: Profile) -> bool:
    model = without_pci(card.model)
    return wanted in {tokens(f"{card.vendor} {model}"), tokens(model)}


def _words(wanted: Tokens, card: Profile) -> bool:
    """Match a run of whole words of vendor and model."""
    words = _WORD.findall(f"{card.vendor} {without_pci(card.model)}")
    ends = range(1, len(words) + 1)
    return any(tokens(" ".join(words[i:j])) == wanted for j in ends for i in range(j))


def _letters_in_part(wanted: Tokens, card: Profile) -> bool:
    """Match where only a run of letters at either end is cut; digits stay whole."""
    if not any(_is_letters(token) and len(token) >= _PARTIAL_LETTERS for token in wanted):
        return False
    before = "" if _is_letters(wanted[0]) else r"(?<![^\W_])"
    after = "" if _is_letters(wanted[-1]) else r"(?![^\W_])"
    name = f"{card.vendor} {without_pci(card.model)}".casefold()
    return re.search(before + _pattern(wanted) + after, name) is not None


def _pattern(wanted: Tokens) -> str:
    """Return the expression that bears blanks and hyphens anywhere but within digits."""
    pattern, previous = "", ""
    for token in wanted:
        if previous:
            # Two runs of digits are two only as long as something parts them.
            pattern += _GAP + ("+" if previous.isdecimal() and token.isdecimal() else "*")
        letters = map(re.escape, token)
        pattern += f"{_GAP}*".join(letters) if _is_letters(token) else re.escape(token)
        previous = token
    return pattern


def choose(
    requested: str,
    profiles: Iterable[Profile],
    count: int,
    *,
    held: str = "",
    refuse_choice: bool = False,
) -> Choice:
    """Choose the one model whose cards a machine gets.

    ``count`` is how many are still to be reserved. ``held`` is the label of the model that the
    machine already holds cards of: it never changes to another. Raises Unavailable with what the
    location offers.
    """
    everything = tuple(profiles)
    matching = match(requested, everything)
    if not matching:
        raise Unavailable(
            f'no GPU type matches "{requested}" in this location; available:'
            f" {offers(everything, near=requested)}"
        )
    if refuse_choice and len(matching) > 1 and not held:
        names = ", ".join(f'"{m.label}"' for m in matching)
        raise Unavailable(
            f'the GPU type "{requested}" covers {len(matching)} models in this location: {names};'
            " write one of them",
            ambiguous=True,
        )
    return _one_model(requested, matching, everything, count, held)


def _one_model(
    requested: str,
    matching: tuple[Model, ...],
    everything: tuple[Profile, ...],
    count: int,
    held: str,
) -> Choice:
    candidates = [m for m in matching if not held or tokens(m.label) == tokens(held)]
    enough = [m for m in candidates if m.free >= count]
    if not enough:
        free = max((m.free for m in candidates), default=0)
        more = f' more of "{held}"' if held else ""
        raise Unavailable(
            f'the GPU type "{requested}" has no room for {count}{more} in this location:'
            f" {free} free on cards of one model; available:"
            f" {offers(everything, near=requested)}"
        )
    best = min(enough, key=lambda m: (-m.free, m.label))
    return Choice(best, tuple(m for m in matching if m is not best))


def offers(profiles: Iterable[Profile], *, near: str = "") -> str:
    """List what a location offers, the names nearest to ``near`` first."""
    wanted = "".join(tokens(near))

    def distance(model: Model) -> tuple[float, str]:
        name = "".join(tokens(model.label))
        return (-SequenceMatcher(None, wanted, name).ratio() if wanted else 0.0, model.label)

    found = sorted(models(profiles), key=distance)
    return ", ".join(model.offer for model in found) or "no GPUs at all"
