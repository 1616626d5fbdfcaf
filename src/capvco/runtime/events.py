"""Kubernetes Events: what ``kubectl describe`` shows below an object.

Recording never blocks and never fails a reconcile: ``event`` only notes, a task of its own
writes. The same Event again is not a new one: it becomes a series whose count is written at
most once per interval. One object cannot flood the cluster: it has a budget of new Events.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Literal, Protocol, TypeAlias

import msgspec
import structlog
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.errors import AlreadyExists, Gone, KubeError, Throttled, Unreachable
from capvco.runtime.kinds import Kind, T
from capvco.runtime.metrics import Metrics
from capvco.runtime.queue import Closed, Queue
from capvco.runtime.wire import Meta, micro_now

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

EventType: TypeAlias = Literal["Normal", "Warning"]

_NOTE = 1024  # bytes that the API takes
_WORD = 128
_NAME = 253
_REMEMBERED = 2048  # series, and objects with a budget
_TRIES = 4


class Event(msgspec.Struct, frozen=True):
    """An events.k8s.io/v1 Event, as far as it is read back."""

    metadata: Meta


EVENTS = Kind("events.k8s.io", "v1", "Event", "events", Event)


class Writer(Protocol):
    """What recording needs of a Kube."""

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        """Return a live object."""
        ...

    async def create(self, kind: Kind[T], namespace: str, body: Mapping[str, object]) -> T:
        """Create an object."""
        ...

    async def apply(self, kind: Kind[T], obj: T, body: Mapping[str, object]) -> T:
        """State what we want of an object."""
        ...


@dataclass(frozen=True)
class Limits:
    """How much may be written: a series every ``interval`` seconds, and new Events per object.

    An object may have ``burst`` new Events at once, and one more every ``refill`` seconds.
    """

    interval: float = 30.0
    burst: int = 25
    refill: float = 60.0


@dataclass(frozen=True)
class _Subject:
    """What Events with the same words are about, and the words."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: EventType
    reason: str
    message: str
    action: str


@dataclass
class _Series:
    """The progress of one series: how often it happened, and what the cluster knows of it."""

    first: str
    name: str
    count: int = 0
    last: str = ""
    written: int = 0
    not_before: float = 0.0
    tries: int = 0
    event: Event | None = None


@dataclass
class _Budget:
    tokens: float
    at: float


@dataclass
class _Memory:
    series: OrderedDict[_Subject, _Series] = field(default_factory=OrderedDict)
    budgets: OrderedDict[str, _Budget] = field(default_factory=OrderedDict)


class Recorder:
    """Records Events in the background; ``run`` must run for anything to be written."""

    def __init__(
        self,
        kube: Writer,
        *,
        component: str = "capvco",
        instance: str = "capvco",
        limits: Limits = Limits(),
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._kube = kube
        self._source = {
            "reportingController": component,
            "reportingInstance": instance[:_WORD],
        }
        self._limits = limits
        self._queue: Queue[_Subject] = Queue("events", registry=registry)
        self._memory = _Memory()
        self._dropped = Metrics.of(registry).events_dropped
        self._ended = asyncio.Event()
        self._ended.set()

    def event(  # noqa: PLR0913, PLR0917 - an Event has that many parts
        self,
        kind: Kind[T],
        obj: T,
        type_: EventType,
        reason: str,
        message: str,
        action: str = "",
    ) -> None:
        """Note that something happened to an object; returns at once, never raises KubeError.

        ``reason`` is a CamelCase word for machines, ``message`` a sentence for people, ``action``
        what was attempted (the reason, if empty).
        """
        meta = obj.metadata
        subject = _Subject(
            api_version=kind.api_version,
            kind=kind.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            type=type_,
            reason=reason[:_WORD],
            message=_shorten(message),
            action=(action or reason)[:_WORD],
        )
        series = self._series_of(subject)
        if series is None:
            self._dropped.inc()
            return
        series.count += 1
        series.last = micro_now()
        self._queue.add(subject, series.not_before - _now())

    async def run(self) -> None:
        """Write what was noted until ``drain``; a cancel drops the rest."""
        self._ended.clear()
        try:
            while True:
                subject = await self._queue.get()
                try:
                    await self._handle(subject)
                finally:
                    self._queue.done(subject)
        except Closed:
            return
        finally:
            self._ended.set()

    async def drain(self, seconds: float = 2.0) -> None:
        """End ``run`` and write what it left, as far as that takes no longer than ``seconds``."""
        self._queue.close()
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
                for subject, series in [*self._memory.series.items()]:
                    if series.written < series.count:
                        await self._write(subject, series)
        except (KubeError, TimeoutError) as error:
            log.warning("events not written", error=str(error) or "no time left")

    async def _handle(self, subject: _Subject) -> None:
        series = self._memory.series.get(subject)
        if series is None or series.written >= series.count:
            return
        try:
            await self._write(subject, series)
            self._queue.forget(subject)
            series.tries = 0
        except (Unreachable, Throttled) as error:
            series.tries += 1
            if series.tries < _TRIES:
                self._queue.fail(subject)
            else:
                self._give_up(subject, series, error)
        except KubeError as error:
            self._give_up(subject, series, error)

    def _give_up(self, subject: _Subject, series: _Series, error: KubeError) -> None:
        self._dropped.inc()
        series.written, series.tries = series.count, 0
        self._queue.forget(subject)
        log.warning("event not recorded", reason=subject.reason, error=str(error))

    async def _write(self, subject: _Subject, series: _Series) -> None:
        """Make the cluster know the series as it is now; may be repeated."""
        count = series.count
        series.not_before = _now() + self._limits.interval
        if series.event is None:
            await self._create(subject, series)
        if count > 1 and series.event is not None:
            body = {"series": {"count": count, "lastObservedTime": series.last}}
            try:
                await self._kube.apply(EVENTS, series.event, body)
            except Gone:
                # The cluster forgets Events after an hour: this one starts anew.
                self._memory.series[subject] = series = self._start(subject)
                series.count, series.last = 1, micro_now()
                await self._create(subject, series)
                count = 1
        series.written = count

    async def _create(self, subject: _Subject, series: _Series) -> None:
        namespace = subject.namespace or "default"
        body = self._source | {
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": series.first,
            "type": subject.type,
            "reason": subject.reason,
            "note": subject.message,
            "action": subject.action,
            "regarding": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
            },
        }
        try:
            series.event = await self._kube.create(EVENTS, namespace, body)
        except AlreadyExists:  # an answer was lost
            series.event = await self._kube.get(EVENTS, namespace, series.name)

    def _series_of(self, subject: _Subject) -> _Series | None:
        """Return the series of a subject, a new one if the object's budget allows."""
        known = self._memory.series
        series = known.get(subject)
        if series is None:
            if not self._spend(subject.uid or subject.name):
                return None
            series = known[subject] = self._start(subject)
        known.move_to_end(subject)
        if len(known) > _REMEMBERED:
            known.popitem(last=False)
        return series

    def _start(self, subject: _Subject) -> _Series:
        first = micro_now()
        words = (subject.uid, subject.type, subject.reason, subject.message, first)
        suffix = blake2s("\0".join(words).encode(), digest_size=8).hexdigest()
        return _Series(first=first, name=f"{subject.name[: _NAME - 17]}.{suffix}")

    def _spend(self, uid: str) -> bool:
        budgets, burst, now = self._memory.budgets, float(self._limits.burst), _now()
        budget = budgets.setdefault(uid, _Budget(burst, now))
        budgets.move_to_end(uid)
        if len(budgets) > _REMEMBERED:
            budgets.popitem(last=False)
        refilled = (now - budget.at) / self._limits.refill
        budget.tokens, budget.at = min(burst, budget.tokens + refilled), now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True


def _shorten(message: str) -> str:
    """Cut a message to what the API takes, on a character's edge."""
    raw = message.encode()
    return message if len(raw) <= _NOTE else raw[: _NOTE - 3].decode(errors="ignore") + "..."


def _now() -> float:
    return asyncio.get_running_loop().time()
