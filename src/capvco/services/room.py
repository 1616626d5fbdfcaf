"""Room in a cloudspace: its private network has addresses for so many VMs and no more.

Looked at before anything is bought for a VM, in the list of VMs that is there anyway. Many machines
that look at the same moment would all see the same last place, so each claims one in passing.
"""

import ipaddress
import re
from dataclasses import dataclass, field

from capvco.api.conditions import Reason
from capvco.services.outcome import Pending, billed

RESERVED = 5
"""Addresses of a network that no VM gets, so a /24 is full with 251 VMs."""
_LASTS = 300.0
"""Seconds after which a claim is dropped that nobody has renewed or left."""
_NO_ADDRESS = re.compile(
    r"\bno\b[^.]*\b(?:room|address(?:es)?)\b|\baddress(?:es)?\b[^.]*\b(?:exhausted|left|available)\b",
    re.IGNORECASE,
)


def places(private_network: str) -> int | None:
    """Return how many VMs have room in a network; None if that is not known."""
    try:
        return ipaddress.ip_network(private_network).num_addresses - RESERVED
    except ValueError:
        return None


def speaks_of_room(words: str) -> bool:
    """Say whether the platform refuses a VM for want of an address, by its words."""
    return _NO_ADDRESS.search(words) is not None


@dataclass
class Claims:
    """Names of the VMs that are about to take a place, by cloudspace."""

    _claims: dict[str, dict[str, float]] = field(default_factory=dict)
    """When each was made or renewed, oldest first."""

    def at_most(self, cloudspace_id: str) -> int:
        """Return how many claims there are, at most: cheap, for the many times that all is well."""
        return len(self._claims.get(cloudspace_id, {}))

    def of_others(self, cloudspace_id: str, name: str, now: float) -> set[str]:
        """Return the names that others have claimed a place for."""
        claims = self._claims.get(cloudspace_id, {})
        return {one for one, at in claims.items() if one != name and now - at < _LASTS}

    def claim(self, cloudspace_id: str, name: str, now: float) -> None:
        """Claim a place, or renew the claim. Old ones of the cloudspace are forgotten."""
        claims = self._claims.setdefault(cloudspace_id, {})
        claims.pop(name, None)
        claims[name] = now
        while now - claims[oldest := next(iter(claims))] >= _LASTS:
            del claims[oldest]

    def leave(self, cloudspace_id: str, name: str) -> None:
        """Give up a claim, if there is one."""
        self._claims.get(cloudspace_id, {}).pop(name, None)


def no_room(what: str, wait: float, held: int) -> Pending:
    """Return what a machine waits for that finds no room, and what its waiting costs."""
    message = (
        f"{what}: it goes on by itself when another VM there is deleted; a network does not grow:"
        f" for more, make a cluster with a larger cloudspace.privateNetwork{billed(held)}"
    )
    return Pending(Reason.CLOUDSPACE_FULL, message, wait, failure=True)
