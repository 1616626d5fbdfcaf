"""How late the event loop is, and what holds it up.

Everything here lives on one event loop, the lease included: code that computes for seconds
without awaiting loses the lease. The lag is therefore a metric, and a blocked loop is logged
with the line of code that blocks it.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.metrics import Metrics

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

_WINDOW = 15.0  # seconds that a peak stays visible, at least


class LoopWatch:
    """Measures the loop it runs on; ``blocked`` seconds without a turn are logged once each."""

    def __init__(
        self,
        *,
        period: float = 0.25,
        blocked: float = 2.0,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._period = period
        self._blocked = blocked
        self._now = 0.0  # peak of this window
        self._before = 0.0  # peak of the one before
        self._beat = threading.Event()
        self._over = threading.Event()
        Metrics.of(registry).loop_lag.set_function(lambda: max(self._now, self._before))

    async def run(self) -> None:
        """Measure until cancelled."""
        clock = asyncio.get_running_loop().time
        turn = clock() + _WINDOW
        with self._guard():
            while True:
                due = clock() + self._period
                await asyncio.sleep(self._period)
                self._beat.set()
                self._now = max(self._now, clock() - due)
                if clock() >= turn:
                    self._now, self._before, turn = 0.0, self._now, clock() + _WINDOW

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Keep a thread that notices when the loop does not turn."""
        self._over.clear()
        arguments = (threading.get_ident(),)
        thread = threading.Thread(
            target=self._stand_guard, args=arguments, name="loop-watch", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._beat.set()
            thread.join()

    def _stand_guard(self, watched: int) -> None:
        while not self._over.is_set():
            self._beat.clear()
            if self._beat.wait(self._period + self._blocked):
                continue
            frame = sys._current_frames().get(watched)  # noqa: SLF001 - the only way to see it
            stack = traceback.format_stack(frame, limit=12) if frame else []
            log.error("event loop blocked", seconds=self._blocked, stack="".join(stack))
            self._beat.wait()
