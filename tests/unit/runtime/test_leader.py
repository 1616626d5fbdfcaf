import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from capvco.runtime.errors import AlreadyExists, Conflict, KubeError, NotFound, Unreachable
from capvco.runtime.kinds import Kind, T
from capvco.runtime.leader import Elector, Lease, LeaseSpec, LostLease, Terms
from capvco.runtime.wire import Meta

from .virtual import VirtualLoop

NAMES = st.sampled_from(["a", "b", "c"])


@dataclass
class Store:
    """The one lease in a cluster, with the apiserver's optimistic concurrency."""

    lease: Lease | None = None
    version: int = 0

    def write(self, spec: LeaseSpec) -> Lease:
        self.version += 1
        meta = Meta(name="l", namespace="ns", uid="u", resource_version=str(self.version))
        self.lease = Lease(meta, spec)
        return self.lease

    def get(self) -> Lease:
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return self.lease

    def create(self, spec: LeaseSpec) -> Lease:
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "a lease")
        return self.write(spec)

    def replace(self, version: str, spec: LeaseSpec) -> Lease:
        if self.get().metadata.resource_version != version:
            raise Conflict(409, "Conflict", "not the latest")
        return self.write(spec)


@dataclass
class Connection:
    """One candidate's way to the cluster: slow, cut, or losing answers."""

    store: Store
    there: float = 0.01
    back: float = 0.01
    cut: bool = False
    loses_answers: bool = False
    under_way: set[asyncio.Future[Lease]] = field(default_factory=set)

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        assert (kind.kind, namespace, name) == ("Lease", "ns", "l")
        return cast("T", await self._carry("get", None, None))

    async def create(self, kind: Kind[T], namespace: str, body: Mapping[str, object]) -> T:
        assert (kind.kind, namespace) == ("Lease", "ns")
        return cast("T", await self._carry("create", None, body))

    async def replace(self, kind: Kind[T], obj: T, body: Mapping[str, object]) -> T:
        assert kind.kind == "Lease"
        return cast("T", await self._carry("replace", obj.metadata.resource_version, body))

    async def _carry(
        self, verb: str, version: str | None, body: Mapping[str, object] | None
    ) -> Lease:
        """Carry a request; a client that gives up waiting does not call it back."""
        if self.cut:
            await asyncio.sleep(30)
            raise Unreachable("cut")
        request = asyncio.ensure_future(self._arrive(verb, version, body))
        self.under_way.add(request)
        request.add_done_callback(self.under_way.discard)
        request.add_done_callback(lambda done: done.cancelled() or done.exception())
        lease = await asyncio.shield(request)
        await asyncio.sleep(self.back)
        if self.loses_answers or self.cut:
            raise Unreachable("answer lost")
        return lease

    async def _arrive(
        self, verb: str, version: str | None, body: Mapping[str, object] | None
    ) -> Lease:
        await asyncio.sleep(self.there)
        spec = (body or {}).get("spec")
        if verb == "get":
            return self.store.get()
        assert isinstance(spec, LeaseSpec)
        if verb == "create":
            return self.store.create(spec)
        return self.store.replace(version or "", spec)


def an_elector(connection: Connection, identity: str) -> Elector:
    return Elector(
        connection,
        "ns",
        identity=identity,
        name="l",
        registry=CollectorRegistry(),
        rng=random.Random(identity),
    )


class ElectionMachine(RuleBasedStateMachine):
    """Never do two lead at a time, and when the network is well somebody leads."""

    def __init__(self) -> None:
        super().__init__()
        self.time = VirtualLoop()
        self.store = Store()
        self.connections = {name: Connection(self.store) for name in "abc"}
        self.running: dict[str, asyncio.Task[None]] = {}
        self.leading: set[str] = set()
        self.most = 0
        self.generation = 0

    async def lead(self, name: str) -> None:
        self.leading.add(name)
        self.most = max(self.most, len(self.leading))
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.discard(name)

    @rule(name=NAMES)
    def start(self, name: str) -> None:
        task = self.running.get(name)
        if task is None or task.done():
            # A process that starts anew has a new identity.
            self.generation += 1
            elector = an_elector(self.connections[name], f"{name}-{self.generation}")
            self.running[name] = self.time.start(elector.run(lambda: self.lead(name)))

    @precondition(lambda self: self.running)
    @rule(name=NAMES)
    def terminate(self, name: str) -> None:
        task = self.running.pop(name, None)
        if task is not None:
            task.cancel()

    @precondition(lambda self: self.running)
    @rule(name=NAMES)
    def kill(self, name: str) -> None:
        """End a process without any goodbye: nothing it sends now arrives."""
        task = self.running.pop(name, None)
        if task is not None:
            self.connections[name].cut = True
            task.cancel()
            self.time.settle()
            self.time.tick(3)
            self.connections[name] = Connection(self.store)

    @rule(
        name=NAMES,
        cut=st.booleans(),
        loses=st.booleans(),
        there=st.sampled_from([0.01, 1.0, 4.0, 9.0]),
        back=st.sampled_from([0.01, 1.0, 4.0]),
    )
    def network(self, name: str, *, cut: bool, loses: bool, there: float, back: float) -> None:
        connection = self.connections[name]
        connection.cut, connection.loses_answers = cut, loses
        connection.there, connection.back = there, back

    @precondition(lambda self: self.store.lease)
    @rule()
    def somebody_deletes_the_lease_of_nobody(self) -> None:
        if not self.leading and not any(c.under_way for c in self.connections.values()):
            self.store.lease = None

    @rule(seconds=st.sampled_from([0.5, 2, 5, 11, 16]))
    def tick(self, seconds: float) -> None:
        self.time.tick(seconds)

    @invariant()
    def at_most_one_leads(self) -> None:
        assert self.most <= 1

    @invariant()
    def only_a_lost_lease_ends_a_candidate(self) -> None:
        for task in self.running.values():
            if task.done() and not task.cancelled():
                assert isinstance(task.exception(), LostLease)

    def teardown(self) -> None:
        try:
            self._converge()
        finally:
            self.time.close()

    def _converge(self) -> None:
        for connection in self.connections.values():
            connection.cut = connection.loses_answers = False
            connection.there = connection.back = 0.01
        self.time.tick(35)  # what is under way arrives
        self.start("a")
        self.time.tick(30)
        assert self.most <= 1
        assert len(self.leading) == 1
        (leader,) = self.leading
        holder = self.store.get().spec.holder_identity
        assert holder.startswith(leader)


TestElectionModel: Any = ElectionMachine.TestCase
TestElectionModel.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None, derandomize=True
)
TestElectionModel.pytestmark = [pytest.mark.timeout(600)]


@dataclass
class Work:
    """What a leader does in these tests: until it is told to end, or cancelled."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    async def lead(self) -> None:
        self.begun.set()
        try:
            await self.enough.wait()
        finally:
            self.over = True


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_a_released_lease_is_taken_over_at_once() -> None:
    """When a leader ends by itself the next one leads within a retry or two."""
    store, one, two = Store(), Work(), Work()
    first = asyncio.ensure_future(an_elector(Connection(store), "first").run(one.lead))
    await one.begun.wait()
    second = asyncio.ensure_future(an_elector(Connection(store), "second").run(two.lead))
    await asyncio.sleep(60)
    assert not two.begun.is_set()
    one.enough.set()
    await first
    released_at = now()
    await two.begun.wait()
    assert now() - released_at < 4
    assert store.get().spec.lease_transitions == 1
    second.cancel()
    await asyncio.wait({second})
    assert store.get().spec.holder_identity == ""


@pytest.mark.looptime
async def test_a_dead_leader_is_replaced_when_its_lease_ran_out() -> None:
    """Without a release it takes the lease's duration, and little more."""
    store, one, two = Store(), Work(), Work()
    connection = Connection(store)
    first = asyncio.ensure_future(an_elector(connection, "first").run(one.lead))
    await one.begun.wait()
    second = asyncio.ensure_future(an_elector(Connection(store), "second").run(two.lead))
    await asyncio.sleep(10)
    connection.cut = True
    cut_at = now()
    with pytest.raises(LostLease, match=r"not renewed in 10 s"):
        await first
    assert one.over
    assert now() - cut_at < 10.1
    await two.begun.wait()
    assert 13 < now() - cut_at < 20
    second.cancel()


@pytest.mark.looptime
async def test_a_loss_is_told_before_anything_else_happens() -> None:
    """The hook of a lost lease runs while the work is still untouched: a process exits there."""
    store, work = Store(), Work()
    told: list[bool] = []
    elector = an_elector(Connection(store), "first")
    running = asyncio.ensure_future(
        elector.run(work.lead, on_loss=lambda _: told.append(work.over))
    )
    await work.begun.wait()
    lease = store.get()
    store.write(msgspec.structs.replace(lease.spec, holder_identity="thief"))
    with pytest.raises(LostLease, match="held by thief"):
        await running
    assert told == [False]
    assert work.over
    assert store.get().spec.holder_identity == "thief"


@pytest.mark.looptime
async def test_a_deleted_lease_is_lost() -> None:
    """A leader whose Lease object disappears cannot know who else saw that: it gives up."""
    store, work = Store(), Work()
    running = asyncio.ensure_future(an_elector(Connection(store), "first").run(work.lead))
    await work.begun.wait()
    store.lease = None
    with pytest.raises(LostLease, match="was deleted"):
        await running


@pytest.mark.looptime
async def test_a_failing_leader_releases_and_says_why() -> None:
    """An error in the work is passed on, after the lease is handed over."""
    store = Store()

    async def fail() -> None:
        await asyncio.sleep(5)
        raise KubeError(500, "x", "broken work")

    with pytest.raises(KubeError, match="broken work"):
        await an_elector(Connection(store), "first").run(fail)
    assert store.get().spec.holder_identity == ""


@pytest.mark.looptime
async def test_one_hanging_renewal_is_not_the_end() -> None:
    """A renewal on a dead connection is given up in time for another one."""
    store, work = Store(), Work()
    connection = Connection(store)
    running = asyncio.ensure_future(an_elector(connection, "first").run(work.lead))
    await work.begun.wait()
    for _ in range(20):
        connection.cut = True
        await asyncio.sleep(3)
        connection.cut = False
        await asyncio.sleep(6)
    assert not running.done()
    running.cancel()


def test_terms_that_cannot_work_are_refused() -> None:
    """A renew deadline beyond the lease would let two lead."""
    with pytest.raises(ValueError, match="lease > renew > retry"):
        Terms(lease=10, renew=10)
