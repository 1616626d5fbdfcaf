"""How long to wait after a failure, the more the more often it failed in a row."""

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 40  # far above any cap, far below what a float holds


@dataclass(frozen=True)
class Backoff:
    """An exponential delay in seconds, between ``base`` and ``cap``, shortened by jitter."""

    base: float = 0.5
    cap: float = 300.0
    jitter: float = 0.2

    def delay(self, failures: int, rng: random.Random) -> float:
        """Return the delay after that many failures in a row (the first is 1)."""
        longest = min(self.cap, self.base * 2.0 ** min(max(failures, 1) - 1, _MOST_DOUBLINGS))
        return longest * (1 - self.jitter * rng.random())
