import asyncio
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from capvco.runtime.cache import Cache, Change
from capvco.runtime.controller import Controller, Result
from capvco.runtime.events import Limits, Recorder
from capvco.runtime.kinds import Key, key_of
from capvco.runtime.kube import Kube
from capvco.runtime.leader import LEASES, NAME, Elector, Terms
from capvco.runtime.manager import Exit, Manager
from kubelocal import LocalCluster

from .world import CONFIG_MAPS, GADGETS, Gadget, named

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800), pytest.mark.usefixtures("gadgets")]


async def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.05)


def key_of_change(change: Change[Gadget]) -> Key:
    obj = change.new or change.old
    assert obj is not None
    return key_of(obj)


async def test_two_electors_one_leader_and_a_quick_handover(kube: Kube, namespace: str) -> None:
    """On a real Lease: one leads, the other takes over within seconds of a release."""
    terms = Terms(lease=6, renew=4, retry=0.5)
    enough, begun = asyncio.Event(), [asyncio.Event(), asyncio.Event()]

    async def first() -> None:
        begun[0].set()
        await enough.wait()

    async def second() -> None:
        begun[1].set()
        await asyncio.Event().wait()

    def elector(identity: str) -> Elector:
        registry = CollectorRegistry()
        return Elector(kube, namespace, identity=identity, terms=terms, registry=registry)

    async with asyncio.TaskGroup() as group:
        one = group.create_task(elector("one").run(first))
        await begun[0].wait()
        two = group.create_task(elector("two").run(second))
        await asyncio.sleep(7)
        assert not begun[1].is_set()
        lease = await kube.get(LEASES, namespace, NAME)
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("one", 6)
        enough.set()
        await one
        released = time.monotonic()
        await begun[1].wait()
        assert time.monotonic() - released < 5
        lease = await kube.get(LEASES, namespace, NAME)
        assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("two", 1)
        two.cancel()
    assert (await kube.get(LEASES, namespace, NAME)).spec.holder_identity == ""


async def test_kubectl_describe_shows_the_events(
    kube: Kube, control_plane: LocalCluster, namespace: str
) -> None:
    """A person sees reason and message below the object, and repetitions as a count."""
    obj = await kube.create(GADGETS, namespace, named("a"))
    limits = Limits(interval=0.5)
    recorder = Recorder(kube, limits=limits, registry=CollectorRegistry())
    running = asyncio.ensure_future(recorder.run())
    for _ in range(3):
        recorder.event(GADGETS, obj, "Warning", "OutOfCards", "no A100 is free", "Reserve")
        await asyncio.sleep(0.7)
    recorder.event(GADGETS, obj, "Normal", "Created", "x" * 5000)
    await recorder.drain()
    await running
    said = await asyncio.to_thread(
        control_plane.kubectl, "describe", "gadget", "a", "-n", namespace
    )
    lines = [line.split() for line in said.splitlines() if "OutOfCards" in line]
    assert len(lines) == 1
    assert lines[0][:2] == ["Warning", "OutOfCards"]
    assert "(x3" in lines[0]
    assert lines[0][-5:] == ["capvco", "no", "A100", "is", "free"]
    assert "Created" in said


async def test_events_of_a_cluster_wide_object_and_after_its_deletion(
    kube: Kube, control_plane: LocalCluster, namespace: str
) -> None:
    """Events outlive their object, and one that cannot be written disturbs nobody."""
    obj = await kube.create(GADGETS, namespace, named("a"))
    await kube.delete(GADGETS, obj)
    registry = CollectorRegistry()
    recorder = Recorder(kube, registry=registry)
    running = asyncio.ensure_future(recorder.run())
    lost = await kube.create(CONFIG_MAPS, namespace, named("b"))
    recorder.event(GADGETS, obj, "Normal", "Deleted", "gone")
    recorder.event(CONFIG_MAPS, lost, "Normal", "Seen", "here")
    await recorder.drain()
    await running
    said = await asyncio.to_thread(
        control_plane.kubectl, "get", "events", "-n", namespace, "-o", "name"
    )
    assert len(said.split()) == 2


async def test_a_manager_reconciles_and_ends_tidily(kube: Kube, namespace: str) -> None:
    """From start to stop with real objects: status written, read back at once, lease released."""
    registry = CollectorRegistry()
    cache: Cache[Gadget] = Cache(
        kube,
        GADGETS,
        namespace=namespace,
        labels={"watch": "yes"},
        indexes={"size": lambda obj: [str(obj.spec.get("size", ""))]},
        registry=registry,
    )
    writes: list[str] = []

    async def reconcile(key: Key) -> Result:
        obj = cache.get(key)
        if obj is None:
            return Result()
        wanted = {"phase": "Ready", "size": str(obj.spec.get("size"))}
        if obj.status != wanted:
            writes.append(key.name)
            cache.assume(await kube.apply_status(GADGETS, obj, wanted))
            assert cache.get(key) is not obj
        return Result()

    controller = Controller("gadget", reconcile, registry=registry)
    cache.on_change(lambda change: controller.enqueue(key_of_change(change)))
    manager = Manager(
        caches=[cache],
        controllers=[controller],
        elector=Elector(kube, namespace, identity="me", registry=registry),
        recorder=Recorder(kube, registry=registry),
        signals=(),
    )
    for number in range(5):
        labels = {"watch": "yes" if number else "no"}
        body = {"metadata": {"name": f"g{number}", "labels": labels}, "spec": {"size": number}}
        await kube.create(GADGETS, namespace, body)
    running = asyncio.ensure_future(manager.run())
    await eventually(lambda: sum(bool(obj.status) for obj in cache.list()) == 4)
    late = await kube.create(
        GADGETS, namespace, {"metadata": {"name": "g9", "labels": {"watch": "yes"}}}
    )
    await eventually(lambda: getattr(cache.get(key_of(late)), "status", {}) != {})
    assert [obj.metadata.name for obj in cache.by_index("size", "3")] == ["g3"]
    await kube.delete(GADGETS, late)
    await eventually(lambda: cache.get(key_of(late)) is None)
    manager.stop()
    assert await running is Exit.STOPPED
    assert sorted(writes) == ["g1", "g2", "g3", "g4", "g9"]  # each exactly once
    assert (await kube.get(LEASES, namespace, NAME)).spec.holder_identity == ""
    live = {obj.metadata.name: obj.status for obj in await kube.list(GADGETS, namespace)}
    assert live["g0"] == {}
    assert live["g3"] == {"phase": "Ready", "size": "3"}
