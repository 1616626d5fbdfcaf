"""A live copy of one kind: list, watch, and list again whenever the watch cannot go on.

The copy is right whatever happens to the connection: what was deleted while nobody watched is
found by comparing a new list with the copy, and reported like any deletion.
"""

import asyncio
import builtins
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol

import structlog
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.backoff import Backoff
from capvco.runtime.errors import Expired, KubeError, Throttled, Unreachable
from capvco.runtime.kinds import Key, Kind, T
from capvco.runtime.kube import selector
from capvco.runtime.metrics import Metrics
from capvco.runtime.store import Change, Store
from capvco.runtime.stream import Broken, Drop, Event, Limits, Listing, Mark, Put, Scope

__all__ = ["Cache", "Change", "Source", "Timing"]

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

Index = Callable[[T], Iterable[str]]
Handler = Callable[[Change[T]], None]

_ALIVE = 5.0  # seconds: a watch that lasted this long was a good one, even if it was silent


class Source(Protocol):
    """Where a cache gets its objects from: a Kube, or a test's own history of a cluster."""

    async def listing(self, kind: Kind[T], scope: Scope, *, latest: bool) -> Listing[T]:
        """List a scope."""
        ...

    def watch(
        self, kind: Kind[T], scope: Scope, *, version: str, limits: Limits
    ) -> AsyncGenerator[Event[T], None]:
        """Watch a scope from a version on."""
        ...


@dataclass(frozen=True)
class Timing:
    """How patient a cache is, in seconds.

    Each watch ends by itself after a random time between ``shortest`` and ``longest``, so that
    many caches do not reconnect at once; a connection silent for ``silence`` counts as dead.
    """

    shortest: float = 240
    longest: float = 480
    silence: float = 75
    backoff: Backoff = Backoff(base=0.5, cap=10)  # noqa: RUF009 - a frozen value

    def limits(self, rng: random.Random) -> Limits:
        """Return the limits of one watch."""
        return Limits(max(1, round(rng.uniform(self.shortest, self.longest))), self.silence)


class Cache(Generic[T]):
    """The objects of one kind in one namespace or all, kept current by ``run``."""

    def __init__(  # noqa: PLR0913 - options, by name only
        self,
        kube: Source,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | str | None = None,
        indexes: Mapping[str, Index[T]] | None = None,
        timing: Timing = Timing(),
        registry: CollectorRegistry = REGISTRY,
        rng: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.name = str(kind)
        self.synced = asyncio.Event()
        self.problem = "not listed yet"
        self._kube = kube
        self._scope = Scope(namespace or None, selector(labels))
        guarded = {name: _guarded(name, index) for name, index in (indexes or {}).items()}
        self._store: Store[T] = Store(guarded)
        self._handlers: list[Handler[T]] = []
        self._timing = timing
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._version = ""
        self._latest = False
        self._failures = 0
        metrics = Metrics.of(registry)
        self._lists = metrics.relists.labels(str(kind))
        self._undecodable = metrics.undecodable.labels(str(kind))
        metrics.cached.labels(str(kind)).set_function(self._store.__len__)

    def get(self, key: Key) -> T | None:
        """Return an object, or None."""
        return self._store.get(key)

    def list(self) -> builtins.list[T]:
        """Return all objects."""
        return self._store.all()

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """Return the objects to which an index gives a value; raises KeyError for no such index."""
        return self._store.by_index(index, value)

    def assume(self, obj: T) -> None:
        """Take the answer to our own write, so that the next reconcile reads it.

        An answer that the watch has overtaken is ignored, so a deleted object does not return.
        """
        self._publish(self._store.assume(obj))

    def on_change(self, handler: Handler[T]) -> None:
        """Call a handler for every change from now on, our own writes included.

        It must be quick and must not await. If it raises, that is logged and nothing else.
        """
        self._handlers.append(handler)

    async def run(self) -> None:
        """Keep the copy current until cancelled; never raises KubeError."""
        while True:
            try:
                if not self._version:
                    await self._relist()
                await self._follow()
            except KubeError as error:
                await self._recover(error)

    async def _relist(self) -> None:
        self._lists.inc()
        latest, self._latest = self._latest, True  # only the very first list may be a cheap one
        listing = await self._kube.listing(self.kind, self._scope, latest=latest)
        for broken in listing.broken:
            self._report(broken)
        self._publish(self._store.replace(listing))
        self._version = listing.version
        self.problem = ""
        self.synced.set()

    async def _follow(self) -> None:
        """Follow one watch to its end."""
        clock = asyncio.get_running_loop().time
        began = clock()
        watch = self._kube.watch(
            self.kind,
            self._scope,
            version=self._version,
            limits=self._timing.limits(self._rng),
        )
        async with aclosing(watch):
            async for event in watch:
                self._take(event)
                self._failures = 0
        if clock() - began >= _ALIVE:
            self._failures = 0
        else:
            # A watch that always ends at once must not become a busy loop.
            await self._pause(None)

    def _take(self, event: Event[T]) -> None:
        match event:
            case Put(obj):
                self._version = obj.metadata.resource_version
                self._publish(self._store.put(obj))
            case Drop(version=version):
                self._version = version
                self._publish(self._store.drop(event))
            case Mark(version):
                self._version = version
                self._store.advance(int(version or 0))
            case Broken(version=version):
                self._version = version
                self._store.keep(event)
                self._report(event)

    async def _recover(self, error: KubeError) -> None:
        """Wait a little, and list again unless the watch can simply go on."""
        if not isinstance(error, (Unreachable, Throttled)):
            self._version = ""
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, Expired):
            log.info("listing again", kind=str(self.kind), error=said)
        elif said != self.problem:
            log.warning("cache interrupted", kind=str(self.kind), error=said)
        self.problem = said
        await self._pause(error.retry_after)

    async def _pause(self, asked: float | None) -> None:
        self._failures += 1
        delay = self._timing.backoff.delay(self._failures, self._rng)
        await asyncio.sleep(delay if asked is None else max(delay, asked))

    def _report(self, broken: Broken) -> None:
        self._undecodable.inc()
        log.error("object cannot be decoded, its former state is kept", error=broken.message)

    def _publish(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            for handler in self._handlers:
                try:
                    handler(change)
                except Exception:
                    # One odd object must not stop the events of all others.
                    log.exception("change handler failed", kind=str(self.kind))


def _guarded(name: str, index: Index[T]) -> Index[T]:
    """Wrap an index function so that an odd object is merely not in the index."""

    def guarded(obj: T) -> Iterable[str]:
        try:
            return [*index(obj)]
        except Exception:
            log.exception("index function failed", index=name, object=obj.metadata.name)
            return ()

    return guarded
