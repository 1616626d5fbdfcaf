"""An event loop on virtual time for stateful tests, and the objects that the tests use."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import looptime
from msgspec import Struct, field

from capvco.runtime.kinds import Kind
from capvco.runtime.wire import Meta

R = TypeVar("R")


class Thing(Struct, frozen=True):
    """An object as tests use it."""

    metadata: Meta
    spec: dict[str, str] = field(default_factory=dict)


THINGS = Kind("test.capvco.io", "v1", "Thing", "things", Thing)


def a_thing(
    name: str = "one", *, version: int = 1, uid: str = "", spec: Mapping[str, str] | None = None
) -> Thing:
    meta = Meta(name=name, namespace="ns", uid=uid or f"uid-{name}", resource_version=str(version))
    return Thing(meta, dict(spec or {}))


class VirtualLoop:
    """An event loop whose clock moves only when told to, and then at once."""

    def __init__(self) -> None:
        self.loop = looptime.new_event_loop(start=0)
        self.tasks: list[asyncio.Task[Any]] = []

    def now(self) -> float:
        return self.loop.time()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = self.loop.create_task(work)
        self.tasks.append(task)
        return task

    def settle(self) -> None:
        """Let everything run that can run without the clock moving."""
        self.run(self._yield())

    def tick(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        self.settle()

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        if self.tasks:
            self.run(self._gather())
        self.run(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _yield(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def _gather(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)
