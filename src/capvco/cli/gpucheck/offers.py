"""What locations offer, and what the controller would do with a request: by its own rules."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from capvco.services.gpu_reservations import pinned
from capvco.services.gpu_types import Choice, Model, Unavailable, choose, match, models
from capvco.vco.models import GPUProfile


class Card(Struct, frozen=True, rename="camel", kw_only=True):
    """One physical card."""

    profile_id: str
    model: str
    """As the platform reports it, with the card's address."""
    free: int


class Offer(Struct, frozen=True, rename="camel", kw_only=True):
    """One model of a location."""

    location: str
    type: str
    """What to write as spec.gpu.type; empty if only a profileId can name it."""
    vendor: str
    model: str
    cards: int
    free: int
    profiles: tuple[Card, ...]


class Request(Struct, frozen=True, kw_only=True):
    """What a machine would ask for."""

    type: str = ""
    profile_id: str = ""
    count: int = 1
    refuse_choice: bool = False

    def __str__(self) -> str:
        what = f'type "{self.type}"' if self.type else f'profileId "{self.profile_id}"'
        return f"{what}, count {self.count}"


class Plan(Struct, frozen=True, rename="camel", kw_only=True):
    """What the controller would do in one location; ``reason`` says why not."""

    location: str
    available: bool
    vendor: str = ""
    model: str = ""
    cards: tuple[Card, ...] = ()
    """In the order of reservation: one entry per vGPU."""
    note: str = ""
    reason: str = ""


def offers(location: str, profiles: Sequence[GPUProfile]) -> tuple[Offer, ...]:
    """List the models of a location, by name."""
    return tuple(
        Offer(
            location=location,
            type=type_to_write(model, profiles),
            vendor=model.vendor,
            model=model.name,
            cards=len(model.cards),
            free=model.free,
            profiles=tuple(_card(p) for p in profiles if p.id in {c.id for c in model.cards}),
        )
        for model in models(profiles)
    )


def type_to_write(model: Model, profiles: Sequence[GPUProfile]) -> str:
    """Return the spelling that gets this model and no other here, empty if there is none."""
    for spelling in (model.label, model.name):
        found = match(spelling, profiles)
        if len(found) == 1 and found[0].cards == model.cards:
            return spelling
    return ""


def plan(request: Request, location: str, profiles: Sequence[GPUProfile]) -> Plan:
    """Say what the controller would reserve, card by card, or why it would not."""
    left, taken, note = list(profiles), list[GPUProfile](), ""
    held = ""
    try:
        for missing in range(request.count, 0, -1):
            choice = _choose(request, left, missing, held)
            held, note = choice.model.label, choice.note or note
            card = next(p for p in left if p.id == choice.cards[0].id)
            taken.append(card)
            fewer = msgspec.structs.replace(card, available_instances=card.available_instances - 1)
            left[left.index(card)] = fewer
    except Unavailable as error:
        return Plan(location=location, available=False, reason=str(error))
    return Plan(
        location=location,
        available=True,
        vendor=choice.model.vendor,
        model=choice.model.name,
        cards=tuple(_card(card) for card in taken),
        note=note,
    )


def _choose(request: Request, left: Sequence[GPUProfile], missing: int, held: str) -> Choice:
    if request.profile_id:
        return pinned(request.profile_id, left, missing)
    return choose(request.type, left, missing, held=held, refuse_choice=request.refuse_choice)


def elsewhere(request: Request, location: str, profiles: Sequence[GPUProfile]) -> str:
    """Say that another location has the type, in the controller's words; empty if it has not."""
    found = match(request.type, profiles) if request.type else ()
    return f"{location} has {', '.join(model.offer for model in found)}" if found else ""


def _card(profile: GPUProfile) -> Card:
    return Card(profile_id=profile.id, model=profile.model, free=profile.available_instances)
