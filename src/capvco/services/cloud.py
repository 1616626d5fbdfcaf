"""What every service works with: the client, the shared lists, the clock, the waiting times."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from msgspec import Struct

from capvco.services.inventory import Inventory
from capvco.services.record import Record
from capvco.services.room import Claims
from capvco.vco.cloud import VCO

Save = Callable[[Record], Awaitable[None]]
"""Stores the record in the object's metadata; returns once the API server has it."""

MAX_USER_DATA = 262144
"""Bytes; the platform documents no limit of its own, and its disk of user data bears this."""


class Waits(Struct, frozen=True, kw_only=True):
    """Waiting times, in seconds."""

    poll: float = 5.0
    """Between two looks at something that is in transition."""
    capacity: float = 30.0
    """Between two looks at a location without room; all waiting machines share the list."""
    settle: float = 60.0
    """How long a request whose answer was lost may still take effect: nothing is repeated before,
    and nothing counts as absent."""
    resync: float = 180.0
    """Between two looks at something that is as wanted. The shared list that a look uses may be
    half as old, so what happens by itself is noticed within four and a half minutes."""


@dataclass(frozen=True)
class Cloud:
    """One customer's access to the platform."""

    vco: VCO
    inventory: Inventory
    waits: Waits
    refuse_choice: bool = False
    """Whether a GPU type that covers several models is refused."""
    max_user_data: int = MAX_USER_DATA
    """Bytes of user data, as JSON, that a VM may get."""
    clock: Callable[[], float] = time.time
    places: Claims = field(default_factory=Claims)
    """Who is about to take an address of which cloudspace."""

    def since(self, age: float) -> float:
        """Return the moment that many seconds ago."""
        return self.clock() - age

    def recent(self) -> float:
        """Return since when a shared list is new enough for a look at what is as wanted."""
        return self.since(self.waits.resync / 2)
