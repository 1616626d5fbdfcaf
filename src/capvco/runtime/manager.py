"""The order in which a controller manager starts and stops.

Start: probes, then caches until all are synced, then the election, then controllers. Caches are
kept while another process leads, so that taking over is quick.

Stop (SIGTERM, SIGINT or ``stop``): no new reconciles; the running ones may finish within the
grace time; Events are written out; the lease is released. A second signal ends at once.
Lost lease: the process exits at once, since somebody else may be working already.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Protocol

import structlog

from capvco.runtime.controller import Controller
from capvco.runtime.events import Recorder
from capvco.runtime.leader import Elector, LostLease
from capvco.runtime.probes import Check, Probes

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

_ECHO = 0.5  # seconds: a terminal and a wrapper may both pass the same Ctrl-C on


class Exit(IntEnum):
    """How a manager's process ended."""

    STOPPED = 0
    """Asked to stop, and everything is tidy."""

    FAILED = 1
    """Something that must not fail did: the log says what."""

    LOST_LEASE = 3
    """Could not keep the lease: another process leads, or soon will."""

    INTERRUPTED = 130
    """A second signal came while stopping."""


class Synced(Protocol):
    """A cache, whatever it holds."""

    @property
    def name(self) -> str:
        """What it holds."""
        ...

    @property
    def synced(self) -> asyncio.Event:
        """Set once the first list is in."""
        ...

    @property
    def problem(self) -> str:
        """What is wrong, or nothing."""
        ...

    async def run(self) -> None:
        """Keep current until cancelled."""
        ...


class Manager:
    """Runs caches, controllers and what they need, as one."""

    def __init__(  # noqa: PLR0913 - the parts, by name only
        self,
        *,
        caches: Sequence[Synced],
        controllers: Sequence[Controller],
        probes: Probes | None = None,
        elector: Elector | None = None,
        recorder: Recorder | None = None,
        background: Sequence[Callable[[], Coroutine[None, None, None]]] = (),
        grace: float = 8.0,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        """Put the parts together.

        ``background`` tasks run from start to end, such as ``LoopWatch.run``. ``grace`` is what
        running reconciles get to finish, in seconds. ``exit_now`` ends the process without any
        tidying up; a test puts something else there, and no signals.
        """
        self._caches = caches
        self._controllers = controllers
        self._probes = probes
        self._elector = elector
        self._recorder = recorder
        self._background = background
        self._grace = grace
        self._signals = signals
        self._exit_now = exit_now
        self._stopping = asyncio.Event()
        self._working = False
        self._signalled_at = 0.0

    def stop(self) -> None:
        """Begin an orderly stop; idempotent."""
        self._stopping.set()

    async def run(self) -> Exit:
        """Run until stopped, and say how it ended; never raises for a failed part."""
        ended = Exit.STOPPED
        try:
            with self._handled_signals():
                await self._run()
        except* LostLease:
            ended = Exit.LOST_LEASE
        except* Exception as failed:
            log.exception("manager failed", exc_info=failed)
            ended = Exit.FAILED
        log.info("manager ended", how=ended.name)
        return ended

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(part()) for part in self._helpers()]
            work = group.create_task(self._work())
            asked = group.create_task(self._stopping.wait())
            await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not self._working:
                work.cancel()  # it waits for caches or for the lease
            await asyncio.wait({work})
            for task in (*helpers, asked):
                task.cancel()

    def _helpers(self) -> Iterator[Callable[[], Coroutine[None, None, None]]]:
        """Yield what runs from start to end."""
        yield from self._background
        if self._probes is not None:
            for number, cache in enumerate(self._caches):
                self._probes.add_check(f"cache-{number} {cache.name}", _check_of(cache))
            yield self._probes.run
        if self._recorder is not None:
            yield self._recorder.run
        for cache in self._caches:
            yield cache.run

    async def _work(self) -> None:
        for cache in self._caches:
            await cache.synced.wait()
        log.info("caches synced", caches=[cache.name for cache in self._caches])
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.run(self._lead, on_loss=self._lost)

    async def _lead(self) -> None:
        """Run the controllers until asked to stop, and let them finish."""
        self._working = True
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.run())
            await self._stopping.wait()
            for controller in self._controllers:
                controller.stop(self._grace)
        if self._recorder is not None:
            await self._recorder.drain()

    def _lost(self, lost: LostLease) -> None:
        log.error("lost the lease, exiting at once", error=str(lost))
        self._exit_now(Exit.LOST_LEASE)

    @contextmanager
    def _handled_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in self._signals:
                loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        now = asyncio.get_running_loop().time()
        if self._stopping.is_set() and now - self._signalled_at < _ECHO:
            return
        if self._stopping.is_set():
            log.warning("second signal, exiting at once", signal=number.name)
            self._exit_now(Exit.INTERRUPTED)
        self._signalled_at = now
        log.info("stopping", signal=number.name, grace=self._grace)
        self.stop()


def _check_of(cache: Synced) -> Check:
    # Once synced, a cache whose watch is interrupted is stale, not absent: restarting the pod
    # would not help.
    return lambda: "" if cache.synced.is_set() else cache.problem
