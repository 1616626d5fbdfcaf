import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from capvco.runtime.cache import Cache, Change, Timing
from capvco.runtime.errors import Expired, Forbidden, KubeError, Unreachable
from capvco.runtime.kinds import Key, Kind, T, key_of, version_of
from capvco.runtime.stream import Broken, Drop, Event, Limits, Listing, Mark, Put, Scope

from .virtual import THINGS, Thing, VirtualLoop, a_thing

NAMES = st.sampled_from(["a", "b", "c"])
BROKEN = "broken"


def key(name: str) -> Key:
    return Key("ns", name)


@dataclass
class Cluster:
    """A cluster's history of one kind, and a connection to it that can be ill-treated."""

    version: int = 10
    objects: dict[str, Thing] = field(default_factory=dict)
    log: list[tuple[int, Event[Thing]]] = field(default_factory=list)
    snapshots: dict[int, dict[str, Thing]] = field(default_factory=dict)
    compacted: int = 0
    lag: int = 0
    allowance: int = 1000
    cut: bool = False
    ended: bool = False
    error: KubeError | None = None
    lists: list[bool] = field(default_factory=list)
    watches: list[float] = field(default_factory=list)
    pulse: asyncio.Event = field(default_factory=asyncio.Event)

    def __setattr__(self, name: str, value: object) -> None:
        """Wake the watches, whatever changes."""
        object.__setattr__(self, name, value)
        if name != "pulse" and "pulse" in self.__dict__:
            self.pulse.set()
            self.pulse = asyncio.Event()

    def write(self, name: str, spec: dict[str, str]) -> Thing:
        self.version += 1
        present = self.objects.get(name)
        uid = present.metadata.uid if present else f"uid-{self.version}"
        obj = a_thing(name, version=self.version, uid=uid, spec=spec)
        self.objects[name] = obj
        self._note(event_of(obj))
        return obj

    def delete(self, name: str) -> None:
        self.version += 1
        uid = self.objects.pop(name).metadata.uid
        self._note(Drop(key(name), uid, str(self.version)))

    def _note(self, event: Event[Thing]) -> None:
        self.snapshots[self.version] = dict(self.objects)
        self.log = [*self.log, (self.version, event)]

    def compact(self) -> None:
        self.compacted = self.version

    async def listing(self, kind: Kind[T], scope: Scope, *, latest: bool) -> Listing[T]:
        assert (kind, scope) == (THINGS, Scope(labels="x=y"))
        self.lists.append(latest)
        await asyncio.sleep(0.01)
        self._complain()
        at = self.version if latest else max(10, self.version - self.lag)
        objects = self.snapshots.get(at, {}).values()
        items = tuple(obj for obj in objects if BROKEN not in obj.spec)
        broken = tuple(broken_of(obj) for obj in objects if BROKEN in obj.spec)
        return cast("Listing[T]", Listing(str(at), items, broken))

    async def watch(
        self, kind: Kind[T], scope: Scope, *, version: str, limits: Limits
    ) -> AsyncGenerator[Event[T], None]:
        assert (kind, scope) == (THINGS, Scope(labels="x=y"))
        self.watches.append(asyncio.get_running_loop().time())
        position, ends = int(version), asyncio.get_running_loop().time() + limits.seconds
        if position < self.compacted:
            raise Expired(410, "Expired", "too old resource version")
        while True:
            pulse = self.pulse
            self._complain()
            if self.ended:
                self.ended = False
                return
            for at, event in [entry for entry in self.log if entry[0] > position]:
                if not self.allowance:
                    break
                position = at
                self.allowance -= 1
                yield cast("Event[T]", event)
            try:
                async with asyncio.timeout_at(ends):
                    await pulse.wait()
            except TimeoutError:
                return

    def _complain(self) -> None:
        if self.cut:
            raise Unreachable("cut")
        if self.error is not None:
            error, self.error = self.error, None
            raise error


def event_of(obj: Thing) -> Event[Thing]:
    return broken_of(obj) if BROKEN in obj.spec else Put(obj)


def broken_of(obj: Thing) -> Broken:
    return Broken(key_of(obj), obj.metadata.uid, obj.metadata.resource_version, "cannot be decoded")


def a_cache(cluster: Cluster, registry: CollectorRegistry | None = None) -> Cache[Thing]:
    return Cache(
        cluster,
        THINGS,
        labels={"x": "y"},
        indexes={"value": lambda obj: [*obj.spec.values()]},
        timing=Timing(shortest=20, longest=40),
        registry=registry or CollectorRegistry(),
        rng=random.Random(1),
    )


class CacheMachine(RuleBasedStateMachine):
    """Whatever happens to the connection, the cache ends up as the cluster is.

    The handlers hear of every difference, and our own writes are seen at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.time = VirtualLoop()
        self.cluster = Cluster(lag=2)
        self.cache = a_cache(self.cluster)
        self.mirror: dict[Key, Thing] = {}
        self.floor: dict[str, int] = {}
        self.answers: list[Thing] = []
        self.cache.on_change(self.follow)

    def follow(self, change: Change[Thing]) -> None:
        either = change.new or change.old
        assert either is not None
        assert self.mirror.pop(key_of(either), None) == change.old
        if change.new is not None:
            self.mirror[key_of(either)] = change.new

    @initialize(early=st.booleans(), allowance=st.sampled_from([0, 1, 1000]))
    def begin(self, *, early: bool, allowance: int) -> None:
        self.cluster.allowance = allowance
        if early:
            self.start()

    @precondition(lambda self: not self.time.tasks)
    @rule()
    def start(self) -> None:
        self.time.start(self.cache.run())

    @rule(name=NAMES, value=st.sampled_from("12"), fate=st.sampled_from(["", "now", "late"]))
    def write(self, name: str, value: str, fate: str) -> None:
        answer = self.cluster.write(name, {"value": value})
        if fate == "now":
            self.cache.assume(answer)
            self.floor[name] = version_of(answer)
        elif fate == "late":
            self.answers.append(answer)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def late_answer(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.answers) - 1))
        self.cache.assume(self.answers.pop(position))

    @precondition(lambda self: self.cluster.objects)
    @rule(data=st.data(), again=st.sampled_from(["", "unseen", "assumed"]))
    def delete(self, data: st.DataObject, again: str) -> None:
        """Delete an object, and perhaps make another one of the same name at once."""
        name = data.draw(st.sampled_from(sorted(self.cluster.objects)))
        self.cluster.delete(name)
        self.floor.pop(name, None)
        if again:
            self.write(name, "1", "now" if again == "assumed" else "")

    @rule(allowance=st.sampled_from([0, 1, 2, 1000]))
    def deliver(self, allowance: int) -> None:
        """Let the watch send that many events more, however many there are."""
        self.cluster.allowance = allowance
        self.time.settle()

    @rule(cut=st.booleans(), compact=st.booleans())
    def connection(self, *, cut: bool, compact: bool) -> None:
        self.cluster.cut = cut
        if compact:
            self.cluster.compact()

    @rule(name=st.sampled_from(["a", "b", "c", ""]))
    def odd_event(self, name: str) -> None:
        """Send a bookmark, or an object that cannot be decoded."""
        if name:
            self.cluster.write(name, {BROKEN: "yes"})
        else:
            self.cluster.version += 1
            self.cluster._note(Mark(str(self.cluster.version)))

    @rule(
        error=st.sampled_from(
            [
                None,
                Expired(410, "Expired", "in the stream"),
                Expired(504, "Timeout", "Too large resource version"),
                Forbidden(403, "Forbidden", "not allowed"),
                KubeError(500, "InternalError", "etcd"),
            ]
        )
    )
    def end_watch(self, error: KubeError | None) -> None:
        self.cluster.ended, self.cluster.error = error is None, error

    @rule(seconds=st.sampled_from([0.01, 1, 20]))
    def tick(self, seconds: float) -> None:
        self.time.tick(seconds)

    @invariant()
    def handlers_know_what_the_cache_holds(self) -> None:
        assert {key_of(obj): obj for obj in self.cache.list()} == self.mirror
        for value in ["1", "2"]:
            wanted = {k for k, obj in self.mirror.items() if value in obj.spec.values()}
            assert {key_of(obj) for obj in self.cache.by_index("value", value)} == wanted

    @invariant()
    def own_writes_are_read(self) -> None:
        for name, version in self.floor.items():
            obj = self.cache.get(key(name))
            assert obj is not None
            assert version_of(obj) >= version

    def teardown(self) -> None:
        try:
            self._converge()
        finally:
            self.time.close()

    def _converge(self) -> None:
        self.cluster.cut = self.cluster.ended = False
        self.cluster.allowance = 1000
        self.cluster.error = None
        if not self.time.tasks:
            self.start()
        self.time.tick(60)
        self.handlers_know_what_the_cache_holds()
        held = {obj.metadata.name: obj for obj in self.cache.list()}
        odd = {name for name, obj in self.cluster.objects.items() if BROKEN in obj.spec}
        assert held.keys() <= self.cluster.objects.keys()
        good = {name: obj for name, obj in self.cluster.objects.items() if name not in odd}
        assert {name: obj for name, obj in held.items() if name not in odd} == good
        assert not any(task.done() for task in self.time.tasks)


TestCacheModel: Any = CacheMachine.TestCase
TestCacheModel.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, derandomize=True
)
TestCacheModel.pytestmark = [pytest.mark.timeout(600)]


@pytest.mark.looptime
async def test_a_deletion_that_nobody_watched_is_reported() -> None:
    """After a 410 the new list is compared with the old state: what is gone is a change."""
    cluster = Cluster()
    cluster.write("a", {})
    doomed = cluster.write("b", {})
    cache, changes = a_cache(cluster), list[Change[Thing]]()
    running = asyncio.ensure_future(cache.run())
    await cache.synced.wait()
    cache.on_change(changes.append)
    cluster.cut = True
    cluster.delete("b")
    cluster.compact()
    await asyncio.sleep(5)
    cluster.cut = False
    await asyncio.sleep(15)
    assert changes == [Change(doomed, None)]
    assert cluster.lists[0] is False
    assert all(cluster.lists[1:])  # the cheap list is only for the start
    running.cancel()


@pytest.mark.looptime
async def test_a_watch_that_always_ends_at_once_is_not_a_busy_loop() -> None:
    """An apiserver, or a proxy, that closes every watch is asked again ever more slowly."""
    cluster = Cluster()
    cache = a_cache(cluster)

    class Closing(Cluster):
        def _complain(self) -> None:
            self.ended = True

    cluster.__class__ = Closing
    running = asyncio.ensure_future(cache.run())
    await asyncio.sleep(600)
    assert len(cluster.watches) < 80
    running.cancel()


@pytest.mark.looptime
async def test_progress_makes_the_cache_quick_again() -> None:
    """After a long outage and one event the next short cut is over at once, not in 10 s."""
    cluster = Cluster()
    cache = a_cache(cluster)
    running = asyncio.ensure_future(cache.run())
    await cache.synced.wait()
    cluster.cut = True
    await asyncio.sleep(300)
    cluster.cut = False
    await asyncio.sleep(15)
    cluster.write("a", {})
    await asyncio.sleep(1)
    cluster.error = Unreachable("reset")
    cluster.write("b", {})
    await asyncio.sleep(0.6)
    assert len(cache.list()) == 2
    running.cancel()


@pytest.mark.looptime
async def test_a_cache_that_may_not_list_says_why_and_goes_on() -> None:
    """Without RBAC the cache is not synced, its problem names the reason, and it heals."""
    cluster = Cluster(error=Forbidden(403, "Forbidden", "things is forbidden"))
    cache = a_cache(cluster)
    running = asyncio.ensure_future(cache.run())
    await asyncio.sleep(0.1)
    assert not cache.synced.is_set()
    assert cache.problem == "Forbidden: things is forbidden"
    await asyncio.sleep(5)
    assert cache.synced.is_set()
    assert cache.problem == ""
    running.cancel()


@pytest.mark.looptime
async def test_odd_objects_and_handlers_do_not_stop_the_others() -> None:
    """An index or handler that raises for one object leaves the rest of the stream intact."""
    cluster = Cluster()
    registry = CollectorRegistry()
    cache = Cache(
        cluster,
        THINGS,
        labels="x=y",
        indexes={"value": lambda obj: [obj.spec["value"]]},
        registry=registry,
    )
    seen: list[str] = []

    def fussy(change: Change[Thing]) -> None:
        assert change.new is not None
        seen.append(change.new.metadata.name)
        if change.new.metadata.name == "b":
            raise ValueError("do not like b")

    cache.on_change(fussy)
    running = asyncio.ensure_future(cache.run())
    await cache.synced.wait()
    cluster.write("a", {})  # has no value to index
    cluster.write("b", {"value": "1"})
    cluster.write("c", {BROKEN: "yes"})
    cluster.write("d", {"value": "1"})
    await asyncio.sleep(1)
    assert seen == ["a", "b", "d"]
    assert [obj.metadata.name for obj in cache.by_index("value", "1")] == ["b", "d"]
    assert [obj.metadata.name for obj in cache.list()] == ["a", "b", "d"]
    undecodable = "capvco_cache_undecodable_total"
    assert registry.get_sample_value(undecodable, {"kind": "things.test.capvco.io"}) == 1
    assert registry.get_sample_value("capvco_cache_objects", {"kind": str(THINGS)}) == 3
    running.cancel()


@pytest.mark.looptime
async def test_an_answer_that_announces_a_deletion_is_not_kept() -> None:
    """Dropping the last finalizer answers with the object; the cache must not revive it."""
    cluster = Cluster()
    obj = cluster.write("a", {})
    cache = a_cache(cluster)
    running = asyncio.ensure_future(cache.run())
    await cache.synced.wait()
    going = msgspec.structs.replace(
        obj,
        metadata=msgspec.structs.replace(
            obj.metadata, deletion_timestamp="2026-01-01T00:00:00Z", resource_version="99"
        ),
    )
    cluster.delete("a")
    await asyncio.sleep(1)
    cache.assume(going)
    assert cache.list() == []
    running.cancel()


@pytest.mark.looptime
async def test_a_cluster_restored_from_a_backup_is_followed() -> None:
    """When versions go backwards the list still rules."""
    cluster = Cluster(version=1000)
    cluster.write("a", {"value": "new"})
    cache = a_cache(cluster)
    running = asyncio.ensure_future(cache.run())
    await cache.synced.wait()
    old = Cluster(version=500)
    restored = old.write("a", {"value": "old"})
    cluster.version, cluster.objects, cluster.log = old.version, old.objects, old.log
    cluster.snapshots = old.snapshots
    cluster.error = Expired(504, "Timeout", "Too large resource version")
    await asyncio.sleep(5)
    assert cache.list() == [restored]
    assert cache.by_index("value", "new") == []
    running.cancel()
