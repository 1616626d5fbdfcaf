"""A token bucket for one credential, which the platform can stop for all callers at once."""

import asyncio


class Paused(Exception):
    """The platform asked for a pause that is too long to wait for in a call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"paused for {seconds:.0f} s")


class Limiter:
    """Let through `rate` calls a second, and up to `burst` at once after a rest; first come first.

    Waiting is cancellation-safe: a caller that gives up takes no token. A pause longer than
    `patience` seconds is raised as Paused, so that callers are free for other work meanwhile.
    """

    def __init__(self, rate: float, burst: int, patience: float) -> None:
        self._rate = rate
        self._burst = burst
        self._patience = patience
        self._tokens = float(burst)
        self._counted_at = 0.0
        self._paused_until = 0.0
        self._turn = asyncio.Lock()

    async def acquire(self) -> None:
        """Wait for one token. Raises Paused."""
        self._check_pause()
        async with self._turn:
            while (wait := self._wait()) > 0:
                self._check_pause()
                await asyncio.sleep(wait)
            self._tokens -= 1

    def pause(self, seconds: float) -> None:
        """Stop everybody for that long; afterwards start from an empty bucket."""
        now = _now()
        until = now + seconds
        if until > self._paused_until:
            self._paused_until = until
            self._tokens = 0.0
            self._counted_at = until

    def _wait(self) -> float:
        """Count what has flowed in, and return how long until there is one token."""
        now = _now()
        if now > self._counted_at:
            flowed = (now - self._counted_at) * self._rate
            self._tokens = min(float(self._burst), self._tokens + flowed)
            self._counted_at = now
        ahead = max(self._counted_at - now, 0.0)
        # Rounding may leave a sliver missing; without the margin that would be one more turn.
        return ahead + max(1 - self._tokens - 1e-9, 0.0) / self._rate

    def _check_pause(self) -> None:
        left = self._paused_until - _now()
        if left > self._patience:
            raise Paused(left)


def _now() -> float:
    return asyncio.get_running_loop().time()
