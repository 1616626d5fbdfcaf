import asyncio
import random
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from capvco.runtime.backoff import Backoff
from capvco.runtime.queue import Closed, Queue

from .virtual import VirtualLoop

KEYS = st.sampled_from("abcd")
DELAYS = st.integers(0, 40).map(lambda quarters: quarters / 4)


class QueueMachine(RuleBasedStateMachine):
    """A key is ready when its earliest wish is due and no worker holds it; nothing else counts."""

    def __init__(self) -> None:
        super().__init__()
        self.time = VirtualLoop()
        self.registry = CollectorRegistry()
        self.queue: Queue[str] = self.time.run(self._make())
        self.wanted: dict[str, float] = {}
        self.held: set[str] = set()
        self.failures: dict[str, int] = {}

    async def _make(self) -> Queue[str]:
        backoff = Backoff(base=0.5, cap=16, jitter=0)
        return Queue("q", backoff=backoff, registry=self.registry)

    def want(self, key: str, after: float) -> None:
        when = self.time.now() + after
        self.wanted[key] = min(when, self.wanted.get(key, when))

    def ready(self) -> set[str]:
        now = self.time.now()
        return {key for key, when in self.wanted.items() if when <= now} - self.held

    def take(self) -> str | None:
        async def attempt() -> str | None:
            getting = asyncio.ensure_future(self.queue.get())
            for _ in range(5):
                await asyncio.sleep(0)
            if getting.done():
                return getting.result()
            getting.cancel()
            await asyncio.wait({getting})
            return None

        return self.time.run(attempt())

    @rule(key=KEYS, after=DELAYS)
    def add(self, key: str, after: float) -> None:
        self.queue.add(key, after)
        self.want(key, after)

    @rule()
    def get(self) -> None:
        ready = self.ready()
        key = self.take()
        if key is None:
            assert not ready
            return
        assert key in ready
        del self.wanted[key]
        self.held.add(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, *, fails: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        if fails:
            failures = self.failures[key] = self.failures.get(key, 0) + 1
            delay = self.queue.fail(key)
            assert delay == min(16, 0.5 * 2 ** (failures - 1))
            self.want(key, delay)
        self.queue.done(key)
        self.held.remove(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=DELAYS)
    def tick(self, seconds: float) -> None:
        self.time.tick(seconds)

    @invariant()
    def depth_is_what_is_due(self) -> None:
        self.time.settle()
        now = self.time.now()
        due = [key for key, when in self.wanted.items() if when <= now]
        labels = {"name": "q", "controller": "q"}
        assert self.registry.get_sample_value("workqueue_depth", labels) == len(due)

    def teardown(self) -> None:
        try:
            self._converge()
        finally:
            self.time.close()

    def _converge(self) -> None:
        # Whatever happened before, in the end every wish is served.
        for key in [*self.held]:
            self.queue.done(key)
        self.held.clear()
        self.time.tick(20)
        served = {self.take() for _ in range(len(self.wanted))}
        assert served == {*self.wanted}
        assert self.take() is None


TestQueueModel: Any = QueueMachine.TestCase
TestQueueModel.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True
)
TestQueueModel.pytestmark = [pytest.mark.timeout(600)]


@pytest.mark.looptime
async def test_close_ends_all_who_wait_and_hands_out_nothing_more() -> None:
    """After close every get raises, also for keys that were ready; done still works."""
    queue: Queue[str] = Queue("q", registry=CollectorRegistry())
    queue.add("held")
    assert await queue.get() == "held"
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("late", 5)
    queue.close()
    queue.add("x")
    queue.done("held")
    results = await asyncio.gather(*waiting, queue.get(), return_exceptions=True)
    assert [type(result) for result in results] == [Closed] * 4
    await asyncio.sleep(10)
    with pytest.raises(Closed):
        await queue.get()


@pytest.mark.looptime
async def test_a_cancelled_get_loses_no_key() -> None:
    """A worker that is cancelled while it waits takes no key with it."""
    queue: Queue[str] = Queue("q", registry=CollectorRegistry())
    getting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    getting.cancel()
    await asyncio.wait({getting})
    assert await asyncio.wait_for(queue.get(), 1) == "a"


@pytest.mark.looptime
async def test_metrics_tell_waiting_and_working_time() -> None:
    """The queue's metrics follow one key through waiting, work and a retry."""
    registry = CollectorRegistry()
    queue: Queue[str] = Queue("q", registry=registry)

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"workqueue_{name}", {"name": "q", "controller": "q"})

    queue.add("a")
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(4)
    assert value("queue_duration_seconds_sum") == pytest.approx(3)
    assert value("longest_running_processor_seconds") == pytest.approx(4)
    assert value("unfinished_work_seconds") == pytest.approx(4)
    queue.fail("a")
    queue.done("a")
    assert value("work_duration_seconds_sum") == pytest.approx(4)
    assert value("longest_running_processor_seconds") == 0
    assert value("retries_total") == 1
    assert value("adds_total") == 1


def test_backoff_grows_to_its_cap_and_jitter_only_shortens() -> None:
    """Delays double from 0.5 s to 5 min; jitter takes away at most a fifth."""
    backoff, rng = Backoff(), random.Random(1)
    for failures in range(1, 200):
        longest = min(300, 0.5 * 2 ** (failures - 1))
        assert 0.8 * longest <= backoff.delay(failures, rng) <= longest
    spread = {round(backoff.delay(20, rng)) for _ in range(50)}
    assert len(spread) > 10


def test_times_that_are_here_already_on_the_loop_of_the_manager() -> None:
    """The handles of uvloop for them are of another kind, without a time of their own."""

    async def two_at_once() -> set[str]:
        queue: Queue[str] = Queue("test", registry=CollectorRegistry())
        queue.add("later", 1e-9)
        queue.add("sooner", 1e-10)
        return {await queue.get(), await queue.get()}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(two_at_once()) == {"later", "sooner"}
