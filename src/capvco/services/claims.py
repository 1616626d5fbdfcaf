"""Cards that machines are about to take, which no list shows yet.

Many machines that choose at the same moment from the same list would all choose the same card, and
all but one would be refused. A claim only moves a card back in the order in which others try the
cards; it never makes a card unavailable, since the list may show its effect already.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_NEVER = float("inf")


@dataclass(eq=False)
class _Claim:
    card: str
    holder: str
    ended: float = _NEVER


@dataclass
class Claims:
    """The claims on the cards of one location."""

    clock: Callable[[], float]
    _claims: list[_Claim] = field(default_factory=list)

    @contextmanager
    def claim(self, card: str, holder: str) -> Iterator[None]:
        """Claim a card while a reservation is under way, and until a later list is there."""
        claim = _Claim(card, holder)
        self._claims.append(claim)
        try:
            yield
        finally:
            claim.ended = self.clock()

    def of_others(self, holder: str) -> Counter[str]:
        """Count the claims of everybody else by card."""
        return Counter(claim.card for claim in self._claims if claim.holder != holder)

    def listed(self, since: float) -> None:
        """Take note of a list that was asked for at that moment: it shows what ended before."""
        self._claims = [claim for claim in self._claims if claim.ended >= since]
