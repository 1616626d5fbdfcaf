"""The token bucket, under virtual time."""

import asyncio

import pytest

from capvco.vco.limiter import Limiter, Paused

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def times(limiter: Limiter, count: int) -> list[float]:
    """Acquire one after the other and note when."""
    start, found = now(), []
    for _ in range(count):
        await limiter.acquire()
        found.append(round(now() - start, 3))
    return found


async def test_burst_then_rate() -> None:
    """A rested bucket lets a burst through, then one call every 1/rate seconds."""
    assert await times(Limiter(4, 3, 10), 6) == [0, 0, 0, 0.25, 0.5, 0.75]


async def test_rest_fills_up_to_the_burst_only() -> None:
    """A long rest is worth one burst, not more."""
    limiter = Limiter(4, 3, 10)
    await times(limiter, 3)
    await asyncio.sleep(3600)
    assert await times(limiter, 4) == [0, 0, 0, 0.25]


async def test_never_more_than_burst_plus_rate() -> None:
    """Over any stretch of time, many tasks together stay within the limit, and none starves."""
    limiter, start, passed = Limiter(4, 20, 10), now(), []

    async def caller() -> None:
        for _ in range(10):
            await limiter.acquire()
            passed.append(now() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(caller())
    assert len(passed) == 120
    assert passed[-1] == pytest.approx((120 - 20) / 4, abs=0.01)
    for i, time in enumerate(passed):
        assert i + 1 <= 20 + 4 * time + 1e-6


async def test_first_come_first_served() -> None:
    """Callers pass in the order in which they came."""
    limiter, order = Limiter(1, 1, 10), []

    async def caller(i: int) -> None:
        await limiter.acquire()
        order.append(i)

    async with asyncio.TaskGroup() as group:
        for i in range(5):
            group.create_task(caller(i))
    assert order == [0, 1, 2, 3, 4]


async def test_cancelled_caller_takes_no_token() -> None:
    """Who gives up waiting leaves its token to the next one."""
    limiter, start = Limiter(1, 1, 10), now()
    await limiter.acquire()
    impatient = asyncio.create_task(limiter.acquire())
    patient = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.5)
    impatient.cancel()
    await patient
    assert now() - start == pytest.approx(1.0)
    assert impatient.cancelled()


async def test_short_pause_is_waited_for_by_all() -> None:
    """After a pause the bucket is empty, so that the platform is not hit by a burst at once."""
    limiter = Limiter(4, 20, 10)
    await limiter.acquire()
    limiter.pause(5)
    assert await times(limiter, 3) == [5.25, 5.5, 5.75]


async def test_pause_reaches_those_that_wait_already() -> None:
    """A pause that is asked for later also stops whoever is waiting for a token."""
    limiter, start = Limiter(1, 1, 10), now()
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.5)
    limiter.pause(5)
    await waiting
    assert now() - start == pytest.approx(6.5)


async def test_long_pause_is_raised_to_everybody() -> None:
    """Nobody holds a worker for minutes: all learn how long to leave it."""
    limiter = Limiter(1, 1, 10)
    await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.5)
    limiter.pause(120)
    with pytest.raises(Paused) as paused:
        await limiter.acquire()
    assert paused.value.seconds == pytest.approx(120)
    with pytest.raises(Paused):
        await waiting
    await asyncio.sleep(111)
    await limiter.acquire()


async def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    """The longest pause counts."""
    limiter = Limiter(4, 20, 10)
    limiter.pause(8)
    limiter.pause(1)
    assert await times(limiter, 1) == [8.25]
