import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import structlog
from prometheus_client import CollectorRegistry

from capvco.runtime.backoff import Backoff
from capvco.runtime.controller import Controller, Result
from capvco.runtime.kinds import Key

pytestmark = pytest.mark.looptime

A, B = Key("ns", "a"), Key("ns", "b")
STEADY = Backoff(base=1, cap=8, jitter=0)


class AskedToWait(Exception):  # noqa: N818 - reads as the event it is
    retry_after = 7.0


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(
    reconcile: Callable[[Key], Awaitable[Result]], concurrency: int = 10, limit: float = 600
) -> AsyncIterator[tuple[Controller, Callable[..., float | None]]]:
    registry = CollectorRegistry()
    controller = Controller(
        "c",
        reconcile,
        concurrency=concurrency,
        timeout=limit,
        backoff=STEADY,
        registry=registry,
    )
    task = asyncio.ensure_future(controller.run())

    def value(name: str, **labels: str) -> float | None:
        labels = {"controller": "c", **labels}
        return registry.get_sample_value(f"controller_runtime_{name}", labels)

    try:
        yield controller, value
    finally:
        controller.stop()
        await task


async def test_outcomes_decide_when_a_key_comes_back() -> None:
    """After a result, after an asked pause, after a growing backoff; success resets that."""
    script: list[Result | Exception] = [
        Result(after=5),
        AskedToWait("busy"),
        AskedToWait("busy"),
        ValueError("bad"),
        ValueError("bad"),
        ValueError("worse"),
        Result(after=3),
        ValueError("bad"),
        Result(),
    ]
    times: list[float] = []

    async def reconcile(key: Key) -> Result:
        assert key == A
        times.append(now())
        step = script[len(times) - 1]
        if isinstance(step, Exception):
            raise step
        return step

    async with running(reconcile) as (controller, value):
        controller.enqueue(A)
        await asyncio.sleep(100)
        pauses = [b - a for a, b in pairwise(times)]
        assert pauses == pytest.approx([5, 7, 7, 1, 2, 4, 3, 1], abs=0.001)
        assert value("reconcile_total", result="requeue_after") == 2
        assert value("reconcile_total", result="success") == 1
        assert value("reconcile_total", result="error") == 6
        assert value("reconcile_errors_total") == 6
        assert value("reconcile_time_seconds_count") == 9
        assert value("reconcile_panics_total") is None


async def test_one_key_is_in_one_worker_and_many_keys_in_many() -> None:
    """A change during a reconcile means one more afterwards, never a second one beside it."""
    active: list[Key] = []
    seen: list[tuple[Key, int]] = []

    async def reconcile(key: Key) -> Result:
        assert key not in active
        active.append(key)
        seen.append((key, len(active)))
        await asyncio.sleep(10)
        active.remove(key)
        return Result()

    async with running(reconcile, concurrency=2) as (controller, value):
        for key in (A, B, A, Key("", "c")):
            controller.enqueue(key)
        await asyncio.sleep(5)
        assert seen == [(A, 1), (B, 2)]
        assert value("active_workers") == 2
        assert value("max_concurrent_reconciles") == 2
        controller.enqueue(A)
        controller.enqueue(A)
        await asyncio.sleep(60)
        assert [key for key, _ in seen] == [A, B, Key("", "c"), A]


async def test_a_reconcile_that_takes_too_long_is_ended() -> None:
    """The timeout is an error like others; a TimeoutError of its own is not mistaken for it."""
    raised: list[str] = []

    async def reconcile(key: Key) -> Result:
        if key == B:
            raise TimeoutError("the cloud is slow")
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            raised.append(f"{now():.0f}")
            raise
        return Result()

    with structlog.testing.capture_logs() as logs:
        async with running(reconcile, limit=30) as (controller, value):
            controller.enqueue(A)
            controller.enqueue(B)
            await asyncio.sleep(30.5)
            assert raised == ["30"]
            assert value("reconcile_errors_total") == 7  # A once; B at 0, 1, 3, 7, 15, 23 s
    errors = {log["error"] for log in logs if log["event"] == "reconcile failed"}
    assert errors == {
        "TimeoutError: not finished within 30 s",
        "TimeoutError: the cloud is slow",
    }


async def test_an_error_is_logged_in_full_once_and_bugs_are_counted() -> None:
    """Repetitions are short; a programming error counts as a panic."""

    async def reconcile(key: Key) -> Result:
        assert key.namespace == "", f"no namespaces, not even {key.namespace}"
        return Result()

    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as logs:
        async with running(reconcile) as (controller, value):
            controller.enqueue(A)
            await asyncio.sleep(4)
            assert value("reconcile_panics_total") == 3
    failures = [log for log in logs if "failed" in log["event"]]
    assert [log["event"] for log in failures] == [
        "reconcile failed",
        "reconcile failed again",
        "reconcile failed again",
    ]
    assert isinstance(failures[0]["exc_info"], AssertionError)
    assert "exc_info" not in failures[1]
    first = failures[0]
    assert (first["controller"], first["namespace"], first["name"]) == ("c", "ns", "a")
    assert len({log["reconcile_id"] for log in failures}) == 3


async def test_terminal_is_counted_and_not_retried() -> None:
    """What no retry helps is not retried."""

    async def reconcile(_: Key) -> Result:
        return Result(terminal=True)

    async with running(reconcile) as (controller, value):
        controller.enqueue(A)
        await asyncio.sleep(1000)
        assert value("terminal_reconcile_errors_total") == 1
        assert value("reconcile_total", result="success") == 1


async def test_stop_lets_running_reconciles_finish_within_the_grace() -> None:
    """What is quick finishes, what is slow is ended, what waits never starts."""
    begun: list[str] = []
    finished: list[str] = []

    async def reconcile(key: Key) -> Result:
        begun.append(key.name)
        await asyncio.sleep(float(key.name))
        finished.append(key.name)
        return Result()

    registry = CollectorRegistry()
    controller = Controller("c", reconcile, concurrency=2, registry=registry)
    task = asyncio.ensure_future(controller.run())
    for name in ("5", "100", "1"):
        controller.enqueue(Key("", name))
    await asyncio.sleep(1)
    stopped_at = now()
    controller.stop(grace=8)
    await task
    assert now() - stopped_at == pytest.approx(8)
    assert begun == ["5", "100"]
    assert finished == ["5"]


async def test_stop_is_quick_when_nothing_runs_and_cancel_ends_everything() -> None:
    """The grace time is a limit, not a pause; a cancel does not wait for it."""

    async def reconcile(_: Key) -> Result:
        await asyncio.sleep(1000)
        return Result()

    idle = Controller("idle", reconcile, registry=CollectorRegistry())
    task = asyncio.ensure_future(idle.run())
    await asyncio.sleep(1)
    idle.stop(grace=8)
    await task
    assert now() == pytest.approx(1)
    busy = Controller("busy", reconcile, registry=CollectorRegistry())
    busy.enqueue(A)
    task = asyncio.ensure_future(busy.run())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == pytest.approx(2)
