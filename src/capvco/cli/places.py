"""The locations of a run: which ones, and the same question to each."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from capvco.cli.unusable import Unusable
from capvco.vco.cloud import VCO
from capvco.vco.errors import Forbidden, Unauthorized, VCOError

T = TypeVar("T")


class Trouble(Struct, frozen=True, kw_only=True):
    """A location that could not be read, and why: what it has is not shown."""

    location: str
    cause: str


class Answers(Struct, Generic[T], frozen=True):
    """What the locations said."""

    by_location: Mapping[str, T]
    troubles: tuple[Trouble, ...]


async def chosen(vco: VCO, named: Sequence[str]) -> tuple[str, ...]:
    """Return the locations that are named, or all. Raises Unusable for one that is unknown."""
    try:
        known = await vco.locations.list()
    except Forbidden:
        # The right to list locations is not needed to use one.
        if not named:
            raise
        return tuple(dict.fromkeys(named))
    if unknown := [name for name in named if name not in known]:
        raise Unusable(
            f"the customer {vco.credentials.customer_id} has no location {_quoted(unknown)};"
            f" available: {', '.join(sorted(known)) or 'none'}"
        )
    return tuple(dict.fromkeys(named)) or tuple(sorted(known))


def _quoted(names: Sequence[str]) -> str:
    return " and no ".join(f'"{name}"' for name in names)


async def each(locations: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> Answers[T]:
    """Ask all locations at once. Raises Unauthorized: no location will answer then."""
    found = await asyncio.gather(*(_one(location, ask) for location in locations))
    pairs = list(zip(locations, found, strict=True))
    return Answers(
        {location: said for location, said in pairs if not isinstance(said, Trouble)},
        tuple(said for _, said in pairs if isinstance(said, Trouble)),
    )


async def _one(location: str, ask: Callable[[str], Awaitable[T]]) -> T | Trouble:
    try:
        return await ask(location)
    except Unauthorized:
        raise
    except VCOError as error:
        return Trouble(location=location, cause=str(error))
