"""How long and how often: retries of what may be repeated, and waits with an end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina
from msgspec import Struct

from capvco.vco.errors import Malformed, Throttled, UnknownOutcome, Unreachable, VCOError

T = TypeVar("T")
Said = Callable[[str], None]


class Patience(Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    tries: int = 8
    """For a part, or any other call that may be repeated."""
    first_wait: float = 1.0
    longest_wait: float = 30.0
    poll: float = 3.0
    lag: float = 60.0
    """How long lists may lag behind: before that, absence proves nothing."""
    ready: float = 1800.0
    """For the import, from the end of the upload to a usable image."""

    async def repeat(self, call: Callable[[], Awaitable[T]], said: Said) -> T:
        """Make a call that may be made twice, again while the cause may pass. Raises VCOError."""
        attempts = stamina.retry_context(
            on=passing,
            attempts=self.tries,
            timeout=None,
            wait_initial=self.first_wait,
            wait_max=self.longest_wait,
            wait_jitter=self.first_wait,
        )
        async for attempt in attempts:
            with attempt:
                try:
                    return await call()
                except VCOError as error:
                    if passing(error) and attempt.num < self.tries:
                        said(f"try {attempt.num} of {self.tries}: {error}")
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def until(
        self, look: Callable[[], Awaitable[T | None]], seconds: float, said: Said
    ) -> T | None:
        """Look again and again until there is something, or the time is over.

        Failures that may pass count as having seen nothing; the last look's are raised.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while True:
            last = clock() >= end
            try:
                if (found := await look()) is not None:
                    return found
            except (Unreachable, Malformed, Throttled) as error:
                if last:
                    raise
                said(str(error))
            if last:
                return None
            await asyncio.sleep(min(self.poll, max(end - clock(), 0)))


def passing(error: Exception) -> bool | float:
    """Tell whether a call may be repeated, or after how many seconds."""
    if isinstance(error, Throttled) and error.retry_after is not None:
        return max(error.retry_after, 0.01)
    return isinstance(error, UnknownOutcome | Unreachable | Throttled)
