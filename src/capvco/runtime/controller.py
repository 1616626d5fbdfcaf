"""A controller: workers that call a reconcile function with the keys of a queue.

The function is level-triggered: it gets a name, looks at the present state, and may be called
at any time, any number of times, also for an object that is gone. Its outcomes:

- ``Result()``: all is as wanted, until somebody enqueues the key again;
- ``Result(after=seconds)``: look again then;
- an exception with a number in ``retry_after``: a fault that says when to come back;
- any other exception: a fault, tried again after a growing delay.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.backoff import Backoff
from capvco.runtime.kinds import Key
from capvco.runtime.metrics import Metrics
from capvco.runtime.queue import Closed, Queue

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

# What only a programming error raises: counted as what Go calls a panic.
_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)


@dataclass(frozen=True)
class Result:
    """The outcome of a reconcile without a fault.

    ``after``: seconds until the next look, None for no appointment. ``terminal``: the object
    cannot be helped until somebody changes it (counted, and otherwise a success).
    """

    after: float | None = None
    terminal: bool = False


Reconcile: TypeAlias = Callable[[Key], Awaitable[Result]]


class Controller:
    """Reconciles the keys that are enqueued, ``concurrency`` at a time, one worker per key."""

    def __init__(  # noqa: PLR0913 - options, by name only
        self,
        name: str,
        reconcile: Reconcile,
        *,
        concurrency: int = 10,
        timeout: float = 600.0,
        backoff: Backoff = Backoff(),  # noqa: B008 - a frozen value
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._concurrency = concurrency
        self._timeout = timeout
        self._queue: Queue[Key] = Queue(name, backoff=backoff, registry=registry)
        self._last_errors: dict[Key, str] = {}
        self._stopped = asyncio.Event()
        self._grace = 0.0
        self._metrics = Metrics.of(registry)
        self._metrics.max_workers.labels(name).set(concurrency)
        self._active = self._metrics.active_workers.labels(name)

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Want a reconcile of a key in ``after`` seconds; also before ``run``."""
        self._queue.add(key, after)

    async def run(self) -> None:
        """Work until ``stop``; a cancel ends all running reconciles at once."""
        log.info("controller started", controller=self.name, concurrency=self._concurrency)
        async with asyncio.TaskGroup() as workers:
            tasks = [workers.create_task(self._work()) for _ in range(self._concurrency)]
            ender = workers.create_task(self._end(tasks))
            await asyncio.wait(tasks)
            ender.cancel()
        log.info("controller stopped", controller=self.name)

    def stop(self, grace: float = 0.0) -> None:
        """Start no more reconciles, and end the running ones after ``grace`` seconds."""
        self._queue.close()
        self._grace = grace
        self._stopped.set()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        await self._stopped.wait()
        await asyncio.sleep(self._grace)
        for task in tasks:
            task.cancel()

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except Closed:
                return
            with self._active.track_inprogress():
                await self._one(key)

    async def _one(self, key: Key) -> None:
        bound = structlog.contextvars.bound_contextvars(
            controller=self.name,
            namespace=key.namespace,
            name=key.name,
            reconcile_id=uuid.uuid4().hex[:12],
        )
        with bound, self._metrics.reconcile_seconds.labels(self.name).time():
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    result = await self._reconcile(key)
            except TimeoutError as error:
                self._failed(key, self._overrun() if limit.expired() else error)
            except Exception as error:  # noqa: BLE001 - any fault of one object is its own
                self._failed(key, error)
            else:
                self._succeeded(key, result)
            finally:
                self._queue.done(key)

    def _overrun(self) -> TimeoutError:
        return TimeoutError(f"not finished within {self._timeout:g} s")

    def _succeeded(self, key: Key, result: Result) -> None:
        self._queue.forget(key)
        self._last_errors.pop(key, None)
        if result.terminal:
            self._metrics.terminal_errors.labels(self.name).inc()
        if result.after is None:
            self._count("success")
        else:
            self._count("requeue_after")
            self._queue.add(key, result.after)

    def _failed(self, key: Key, error: Exception) -> None:
        self._count("error")
        self._metrics.reconcile_errors.labels(self.name).inc()
        if isinstance(error, _BUGS):
            self._metrics.panics.labels(self.name).inc()
        asked = getattr(error, "retry_after", None)
        if isinstance(asked, (int, float)):
            self._queue.add(key, asked)
            log.info("reconcile postponed", error=_words(error), after=asked)
        else:
            self._log_failure(key, error, self._queue.fail(key))

    def _log_failure(self, key: Key, error: Exception, delay: float) -> None:
        """Log a new error in full and its repetitions in short."""
        words = _words(error)
        if self._last_errors.get(key) == words:
            log.info("reconcile failed again", error=words, retry_in=round(delay, 1))
            return
        self._last_errors[key] = words
        log.error("reconcile failed", error=words, retry_in=round(delay, 1), exc_info=error)

    def _count(self, result: str) -> None:
        self._metrics.reconciles.labels(self.name, result).inc()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
