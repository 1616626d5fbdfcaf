"""The simulator's clock: real time, or time that stands still until somebody advances it."""

import asyncio
import time
from contextlib import suppress
from typing import Literal

Mode = Literal["real", "manual"]


class Clock:
    """Tells the time (seconds since the epoch) and lets callers wait for one.

    Every duration in the simulator goes through it. ``advance`` moves either kind of clock forward.
    """

    def __init__(self, mode: Mode = "real", at: float | None = None, lead: float = 0.0) -> None:
        self.mode = mode
        self.lead = lead
        """How far a real clock was moved ahead of the machine's."""
        self._at = time.time() if at is None else at
        self._stopped = False
        self._moved = asyncio.Event()

    def now(self) -> float:
        """Return the present."""
        return self._at if self.mode == "manual" else time.time() + self.lead

    def advance(self, seconds: float) -> float:
        """Move forward, wake those who wait, and return the new present."""
        if seconds < 0:
            raise ValueError(f"time cannot go back ({seconds} s)")
        if self.mode == "manual":
            self._at += seconds
        else:
            self.lead += seconds
        self._wake()
        return self.now()

    async def until(self, due: float) -> None:
        """Wait for a moment; returns early only when the clock is stopped."""
        while not self._stopped and (left := due - self.now()) > 0:
            moved = self._moved
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self.mode == "manual" else left):
                    await moved.wait()

    def stop(self) -> None:
        """Release everybody who waits: the simulator is going down."""
        self._stopped = True
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
