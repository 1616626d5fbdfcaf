import asyncio
import os
import signal
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from capvco.runtime.controller import Controller, Result
from capvco.runtime.kinds import Key
from capvco.runtime.manager import Exit, Manager
from capvco.runtime.probes import Probes

from .test_leader import Connection, Store, an_elector


@dataclass
class Cache:
    """A cache that is synced when told."""

    name: str = "things"
    problem: str = "not listed yet"
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    running: bool = False
    fault: Exception | None = None
    gate: asyncio.Event | None = None

    async def run(self) -> None:
        self.running = True
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(1))
            if self.fault:
                raise self.fault
            self.synced.set()
            await asyncio.Event().wait()
        finally:
            self.running = False


@dataclass
class World:
    """A manager's parts, and what happened to them."""

    store: Store = field(default_factory=Store)
    cache: Cache = field(default_factory=Cache)
    log: list[str] = field(default_factory=list)
    duration: float = 1.0
    elected: bool = True
    fault: BaseException | None = None

    def __post_init__(self) -> None:
        self.connection = Connection(self.store)
        self.elector = an_elector(self.connection, "me")
        registry = CollectorRegistry()
        self.controller = Controller("c", self.reconcile, registry=registry)
        self.probes = Probes(health="", metrics="", registry=registry)

    async def reconcile(self, key: Key) -> Result:
        assert self.cache.running
        holder = self.store.lease.spec.holder_identity if self.store.lease else "nobody"
        self.log.append(f"begin {key.name} led by {holder}")
        try:
            await asyncio.sleep(self.duration)
        except asyncio.CancelledError:
            self.log.append(f"cancelled {key.name}")
            raise
        self.log.append(f"end {key.name}")
        return Result()

    def manager(self, signals: tuple[signal.Signals, ...] = ()) -> Manager:
        return Manager(
            caches=[self.cache],
            controllers=[self.controller],
            elector=self.elector if self.elected else None,
            probes=self.probes,
            background=[self.background],
            signals=signals,
            exit_now=lambda code: self.log.append(f"exit {code}"),
        )

    async def background(self) -> None:
        if self.fault:
            await asyncio.sleep(5)
            raise self.fault
        await asyncio.Event().wait()


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_order_of_start_and_stop() -> None:
    """Caches, then the lease, then work; on stop the work finishes before the lease goes."""
    world = World(duration=5)
    manager = world.manager()
    world.controller.enqueue(Key("", "a"))  # what is enqueued before leading is not lost
    running = asyncio.ensure_future(manager.run())
    await asyncio.sleep(0.5)
    assert world.store.lease is None
    await asyncio.sleep(1)
    assert world.log == ["begin a led by me"]
    manager.stop()
    await asyncio.sleep(3)
    assert world.store.get().spec.holder_identity == "me"
    assert await running is Exit.STOPPED
    assert world.log == ["begin a led by me", "end a"]
    assert world.store.get().spec.holder_identity == ""
    assert not world.cache.running


@pytest.mark.looptime
async def test_the_grace_time_ends_what_does_not_finish() -> None:
    """A reconcile that takes minutes cannot hold up the end of the pod."""
    world = World(duration=1000)
    manager = world.manager()
    world.controller.enqueue(Key("", "a"))
    running = asyncio.ensure_future(manager.run())
    await asyncio.sleep(5)
    manager.stop()
    began = now()
    assert await running is Exit.STOPPED
    assert now() - began == pytest.approx(8, abs=0.5)
    assert world.store.get().spec.holder_identity == ""


@pytest.mark.looptime
@pytest.mark.parametrize("at", [0.5, 3])
async def test_a_stop_before_leading_is_quick(at: float) -> None:
    """While waiting for caches or for the lease there is nothing to finish."""
    world = World()
    other = asyncio.ensure_future(
        an_elector(Connection(world.store), "other").run(asyncio.Event().wait)  # type: ignore[arg-type]  # what it returns is not read
    )
    await asyncio.sleep(0.1)
    manager = world.manager()
    running = asyncio.ensure_future(manager.run())
    await asyncio.sleep(at)
    manager.stop()
    began = now()
    assert await running is Exit.STOPPED
    assert now() - began < 0.1
    assert world.store.get().spec.holder_identity == "other"
    other.cancel()


@pytest.mark.looptime
async def test_a_lost_lease_exits_at_once() -> None:
    """The process ends before a single cleanup of the running work."""
    world = World(duration=1000)
    world.controller.enqueue(Key("", "a"))
    running = asyncio.ensure_future(world.manager().run())
    await asyncio.sleep(5)
    world.connection.cut = True
    assert await running is Exit.LOST_LEASE
    assert world.log == ["begin a led by me", "exit 3", "cancelled a"]


@pytest.mark.looptime
@pytest.mark.parametrize("part", ["cache", "background", "probes"])
async def test_a_part_that_fails_ends_the_manager(part: str) -> None:
    """Whatever fails, all else is ended in order and the lease is released."""
    world = World()
    if part == "cache":
        world.cache.fault = RuntimeError("cache broke")
    elif part == "background":
        world.fault = RuntimeError("background broke")
    else:
        world.probes = Probes(health="192.0.2.1:1", metrics="", registry=CollectorRegistry())
    assert await world.manager().run() is Exit.FAILED
    assert not world.cache.running
    if world.store.lease is not None:
        assert world.store.lease.spec.holder_identity == ""


@pytest.mark.looptime
async def test_it_works_without_election() -> None:
    """Leader election is an option."""
    world = World()
    world.elected = False
    manager = world.manager()
    world.controller.enqueue(Key("", "a"))
    running = asyncio.ensure_future(manager.run())
    await asyncio.sleep(5)
    manager.stop()
    assert await running is Exit.STOPPED
    assert world.log == ["begin a led by nobody", "end a"]


async def test_readiness_follows_the_caches() -> None:
    """Not ready until every cache is synced, with the cache's own words why."""
    world = World()
    world.cache.gate = asyncio.Event()
    world.probes = Probes(health="127.0.0.1:0", metrics="", registry=CollectorRegistry())
    manager = world.manager()
    running = asyncio.ensure_future(manager.run())
    async with asyncio.timeout(30):
        while not world.probes.ports:  # noqa: ASYNC110 - set by the server's start
            await asyncio.sleep(0.01)
        (port,) = world.probes.ports.values()
        answer = await readyz(port)
        assert answer.startswith("HTTP/1.1 503")
        assert "[-] cache-0 things: not listed yet" in answer
        world.cache.gate.set()
        while "503" in answer:
            answer = await readyz(port)
        assert "[+] cache-0 things" in answer
    manager.stop()
    await running


async def readyz(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_a_signal_stops_and_a_second_one_exits() -> None:
    """SIGTERM is an orderly stop; its echo is ignored; insisting ends the process."""
    world = World(duration=1000)
    manager = world.manager((signal.SIGTERM,))
    world.controller.enqueue(Key("", "a"))
    running = asyncio.ensure_future(manager.run())
    async with asyncio.timeout(10):
        while not world.log:  # noqa: ASYNC110 - the work begins when the lease is won
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    began = now()
    await asyncio.sleep(0.6)
    assert world.log == ["begin a led by me"]
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(10):
        while len(world.log) < 2:  # noqa: ASYNC110 - set by a signal handler
            await asyncio.sleep(0.01)
    assert world.log == ["begin a led by me", "exit 130"]
    assert now() - began < 5
    running.cancel()
    await asyncio.wait({running})
