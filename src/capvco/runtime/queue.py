"""The keys that want work: each in one worker at a time, now or later, failures ever later.

A key is wanted at most once, at the earliest time that anybody asked for. Work that is asked
for while a worker holds the key starts when that worker is done.
"""

import asyncio
import heapq
import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.backoff import Backoff
from capvco.runtime.metrics import Metrics

K = TypeVar("K", bound=Hashable)


class Closed(Exception):  # noqa: N818 - reads as the state it is
    """The queue hands out no more keys."""


class Queue(Generic[K]):
    """A work queue on the event loop's clock; needs a running loop."""

    def __init__(
        self,
        name: str,
        *,
        backoff: Backoff = Backoff(),  # noqa: B008 - a frozen value
        registry: CollectorRegistry = REGISTRY,
        rng: random.Random | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._backoff = backoff
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()
        self._since: dict[K, float] = {}  # wanted now, and since when
        self._held: dict[K, float] = {}  # in a worker, and since when
        self._due: dict[K, float] = {}  # wanted later, and when
        self._heap: list[tuple[float, int, K]] = []  # the same by time, with outdated entries
        self._entries = 0
        self._timer: asyncio.Handle | None = None
        self._timer_at: float | None = None
        self._failures: dict[K, int] = {}
        self._closed = False
        self._measure(name, Metrics.of(registry))

    def add(self, key: K, after: float = 0.0) -> None:
        """Want a key in ``after`` seconds; an earlier wish for it stands, a later one is dropped.

        May be called at any time; does nothing once the queue is closed.
        """
        if self._closed or key in self._since:
            return
        if after > 0:
            self._delay(key, self._loop.time() + after)
            return
        self._due.pop(key, None)
        self._since[key] = self._loop.time()
        self._adds.inc()
        if key not in self._held:
            self._ready.put_nowait(key)

    async def get(self) -> K:
        """Return the next key; the caller holds it until ``done``. Raises Closed."""
        key = await self._ready.get()
        if key is None:
            self._ready.put_nowait(None)  # for the next one who waits
            raise Closed
        now = self._loop.time()
        self._waited.observe(now - self._since.pop(key))
        self._held[key] = now
        return key

    def done(self, key: K) -> None:
        """Hand a key back; it is ready again if it was wanted meanwhile. Raises KeyError."""
        self._worked.observe(self._loop.time() - self._held.pop(key))
        if key in self._since and not self._closed:
            self._ready.put_nowait(key)

    def fail(self, key: K) -> float:
        """Want a key again after its backoff, and return the delay; call it before ``done``."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures, self._rng)
        self._retries.inc()
        self.add(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Start the backoff of a key anew."""
        self._failures.pop(key, None)

    def close(self) -> None:
        """Hand out no more keys; those who hold one may still call ``done``."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while not self._ready.empty():
            self._ready.get_nowait()
        self._ready.put_nowait(None)

    def _delay(self, key: K, when: float) -> None:
        if when >= self._due.get(key, float("inf")):
            return
        self._due[key] = when
        self._entries += 1
        heapq.heappush(self._heap, (when, self._entries, key))
        self._set_timer()

    def _set_timer(self) -> None:
        """Wake up at the earliest time that still counts."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        when = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            # The handle is not asked: uvloop's for a moment that is here already does not tell.
            if self._timer_at == when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._wake) if when is not None else None
        self._timer_at = when

    def _wake(self) -> None:
        # The loop may call a little early, within its clock's resolution: due is what it was
        # called for.
        self._timer = None
        now = max(self._loop.time(), self._heap[0][0])
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                self.add(key)
        self._set_timer()

    def _measure(self, name: str, metrics: Metrics) -> None:
        labels = (name, name)
        self._adds = metrics.adds.labels(*labels)
        self._retries = metrics.retries.labels(*labels)
        self._waited = metrics.queue_seconds.labels(*labels)
        self._worked = metrics.work_seconds.labels(*labels)
        metrics.depth.labels(*labels).set_function(lambda: len(self._since))
        metrics.unfinished_seconds.labels(*labels).set_function(self._unfinished)
        metrics.longest_seconds.labels(*labels).set_function(self._longest)

    def _unfinished(self) -> float:
        now = self._loop.time()
        return sum(now - since for since in self._held.values())

    def _longest(self) -> float:
        now = self._loop.time()
        return now - min(self._held.values(), default=now)
