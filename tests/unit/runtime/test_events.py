import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from capvco.runtime.errors import AlreadyExists, Forbidden, Gone, KubeError, Unreachable
from capvco.runtime.events import Event, Limits, Recorder
from capvco.runtime.kinds import Kind, T
from capvco.runtime.wire import Meta

from .virtual import THINGS, Thing, a_thing

pytestmark = pytest.mark.looptime

STANDARD = Limits()


@dataclass
class Cluster:
    """The Events of a cluster, and faults that writing them meets."""

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[KubeError | None] = field(default_factory=list)
    writes: int = 0
    slow: float = 0.0

    async def _write(self) -> KubeError | None:
        self.writes += 1
        await asyncio.sleep(self.slow)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and not isinstance(fault, Unreachable):
            raise fault
        return fault

    def _answer(self, kind: Kind[T], name: str) -> T:
        return kind.type(Meta(name=name, namespace="ns", uid=f"uid-{name}"))  # type: ignore[call-arg]  # it is an Event

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        assert namespace == self.events[name]["metadata"]["namespace"]
        return self._answer(kind, name)

    async def create(self, kind: Kind[T], namespace: str, body: Mapping[str, object]) -> T:
        assert kind.type is Event
        lost = await self._write()
        event = cast("dict[str, Any]", dict(body))
        assert event["metadata"]["namespace"] == namespace
        name = event["metadata"]["name"]
        if name in self.events:
            raise AlreadyExists(409, "AlreadyExists", name)
        self.events[name] = event
        if lost:
            raise lost
        return self._answer(kind, name)

    async def apply(self, kind: Kind[T], obj: T, body: Mapping[str, object]) -> T:
        await self._write()
        if obj.metadata.name not in self.events:
            raise Gone(409, "Conflict", "uid mismatch")
        self.events[obj.metadata.name].update(body)
        return self._answer(kind, obj.metadata.name)

    def counts(self) -> list[int]:
        return [event.get("series", {}).get("count", 1) for event in self.events.values()]


def a_recorder(cluster: Cluster, limits: Limits = STANDARD) -> tuple[Recorder, CollectorRegistry]:
    registry = CollectorRegistry()
    return Recorder(cluster, instance="pod", limits=limits, registry=registry), registry


def dropped(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("capvco_events_dropped_total")


async def test_an_event_says_who_what_and_about_which_object() -> None:
    """The wire form is what events.k8s.io/v1 wants."""
    cluster = Cluster()
    recorder, _ = a_recorder(cluster)
    running = asyncio.ensure_future(recorder.run())
    recorder.event(THINGS, a_thing(), "Warning", "NoCards", "no A100 is free", "Reserve")
    await asyncio.sleep(1)
    ((name, event),) = cluster.events.items()
    assert name.startswith("one.")
    assert event.pop("eventTime").endswith("Z")
    assert event == {
        "metadata": {"name": name, "namespace": "ns"},
        "reportingController": "capvco",
        "reportingInstance": "pod",
        "type": "Warning",
        "reason": "NoCards",
        "note": "no A100 is free",
        "action": "Reserve",
        "regarding": {
            "apiVersion": "test.capvco.io/v1",
            "kind": "Thing",
            "name": "one",
            "namespace": "ns",
            "uid": "uid-one",
        },
    }
    await recorder.drain()
    await running


async def test_repetitions_are_one_series_written_once_per_interval() -> None:
    """A thousand times the same is one Event, a few writes and the right count."""
    cluster = Cluster()
    recorder, registry = a_recorder(cluster, Limits(interval=30))
    running = asyncio.ensure_future(recorder.run())
    for _ in range(1000):
        recorder.event(THINGS, a_thing(), "Normal", "Waiting", "for the cloud")
        await asyncio.sleep(0.1)
    assert cluster.writes <= 5
    await recorder.drain()
    await running
    assert cluster.counts() == [1000]
    assert dropped(registry) == 0


async def test_one_object_cannot_flood_the_cluster() -> None:
    """Beyond its burst an object gets one new Event per refill; others are not concerned."""
    cluster = Cluster()
    recorder, registry = a_recorder(cluster, Limits(burst=5, refill=60))
    running = asyncio.ensure_future(recorder.run())
    for number in range(50):
        recorder.event(THINGS, a_thing(), "Normal", "Odd", f"message {number}")
    recorder.event(THINGS, a_thing("two"), "Normal", "Odd", "message")
    await asyncio.sleep(1)
    assert len(cluster.events) == 6
    assert dropped(registry) == 45
    await asyncio.sleep(120)
    for number in range(50, 60):
        recorder.event(THINGS, a_thing(), "Normal", "Odd", f"message {number}")
    await recorder.drain()
    await running
    assert len(cluster.events) == 8


async def test_a_lost_answer_is_no_second_event() -> None:
    """A create whose answer is lost is repeated under the same name."""
    cluster = Cluster(faults=[Unreachable("lost"), Unreachable("lost")])
    recorder, registry = a_recorder(cluster)
    running = asyncio.ensure_future(recorder.run())
    recorder.event(THINGS, a_thing(), "Normal", "Made", "a VM")
    recorder.event(THINGS, a_thing("two"), "Normal", "Made", "a VM")
    await asyncio.sleep(10)
    await recorder.drain()
    await running
    assert cluster.counts() == [1, 1]
    assert dropped(registry) == 0


async def test_what_cannot_be_written_is_dropped_and_counted() -> None:
    """RBAC or an absent apiserver cost Events, and nothing else."""
    cluster = Cluster(faults=[Forbidden(403, "Forbidden", "no")] + [Unreachable("x")] * 4)
    recorder, registry = a_recorder(cluster)
    running = asyncio.ensure_future(recorder.run())
    recorder.event(THINGS, a_thing("forbidden"), "Normal", "A", "a")
    await asyncio.sleep(1)
    assert cluster.events == {}
    assert dropped(registry) == 1
    cluster.events = {}
    recorder.event(THINGS, a_thing("late"), "Normal", "A", "a")
    await asyncio.sleep(60)
    await recorder.drain()
    await running
    assert len(cluster.events) == 1


async def test_an_event_that_the_cluster_forgot_starts_anew() -> None:
    """Events live an hour; a later repetition is a new Event, not an error."""
    cluster = Cluster()
    recorder, _ = a_recorder(cluster, Limits(interval=1))
    running = asyncio.ensure_future(recorder.run())
    recorder.event(THINGS, a_thing(), "Normal", "A", "a")
    await asyncio.sleep(5)
    cluster.events.clear()
    recorder.event(THINGS, a_thing(), "Normal", "A", "a")
    await asyncio.sleep(5)
    recorder.event(THINGS, a_thing(), "Normal", "A", "a")
    await recorder.drain()
    await running
    assert cluster.counts() == [2]


async def test_drain_does_not_wait_for_ever() -> None:
    """A slow apiserver cannot hold up the end of the process."""
    cluster = Cluster(slow=100)
    recorder, _ = a_recorder(cluster)
    running = asyncio.ensure_future(recorder.run())
    recorder.event(THINGS, a_thing(), "Normal", "A", "a")
    recorder.event(THINGS, a_thing("two"), "Normal", "A", "a")
    await asyncio.sleep(1)
    before = asyncio.get_running_loop().time()
    await recorder.drain(2)
    assert asyncio.get_running_loop().time() - before == pytest.approx(2)
    running.cancel()


async def test_texts_are_cut_to_what_the_api_takes() -> None:
    """Long words and notes are shortened, multi-byte characters stay whole."""
    cluster = Cluster()
    recorder, _ = a_recorder(cluster)
    running = asyncio.ensure_future(recorder.run())
    long: Thing = a_thing("n" * 253)
    recorder.event(THINGS, long, "Normal", "R" * 200, "é" * 1000)
    await recorder.drain()
    await running
    ((name, event),) = cluster.events.items()
    assert len(name) <= 253
    assert len(event["reason"]) == len(event["action"]) == 128
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("é...")
