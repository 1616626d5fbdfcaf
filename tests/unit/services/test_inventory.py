"""Shared lists, under virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from capvco.services.inventory import Shared
from tests.support.properties import always

R = TypeVar("R")


def run(work: Coroutine[object, object, R]) -> R:
    """Run to the end on a loop whose time costs nothing."""
    loop = looptime.new_event_loop(start=0)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


class Failed(Exception):  # noqa: N818 - a failed list
    """The list could not be had."""


class Cloud:
    """Answers with the moment at which it was asked, after a while; some answers are failures."""

    def __init__(self, *takes: float, failing: frozenset[int] = frozenset()) -> None:
        self.takes = takes or (1.0,)
        self.failing = failing
        self.asked: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def fetch(self) -> float:
        number, asked = len(self.asked), now()
        self.asked.append(asked)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.takes[number % len(self.takes)])
        self.in_flight -= 1
        if number in self.failing:
            raise Failed
        return asked

    def shared(self, rest: float = 0.0) -> Shared[float]:
        return Shared(self.fetch, now, rest=rest)


async def later(seconds: float, call: Callable[[], Awaitable[R]]) -> R:
    await asyncio.sleep(seconds)
    return await call()


def test_callers_at_one_time_share_one_request() -> None:
    """A thousand machines that poll together make one call."""

    async def scenario() -> None:
        cloud = Cloud(1.0)
        shared = cloud.shared()
        answers = await asyncio.gather(*(shared.get(0.0) for _ in range(1000)))
        assert set(answers) == {0.0}
        assert cloud.asked == [0.0]

    run(scenario())


def test_a_list_that_is_new_enough_is_kept() -> None:
    """Whoever merely polls takes what was listed a while ago, without a call."""

    async def scenario() -> None:
        cloud = Cloud(1.0)
        shared = cloud.shared()
        await shared.get(0.0)
        await asyncio.sleep(9)
        assert await shared.get(now() - 10) == 0.0
        assert now() == 10.0
        assert await shared.get(now() - 9.5) == 10.0
        assert cloud.asked == [0.0, 10.0]

    run(scenario())


def test_age_is_counted_from_the_start_of_the_request() -> None:
    """What happened while a list was under way may be missing in it."""

    async def scenario() -> None:
        cloud = Cloud(5.0)
        shared = cloud.shared()
        first = asyncio.create_task(shared.get(0.0))
        await asyncio.sleep(2)
        effect = now()
        assert await shared.get(effect) == 5.0
        assert await first == 0.0

    run(scenario())


def test_those_who_need_a_newer_list_share_the_next_one() -> None:
    """The request under way is too old for them; after it, one more serves all."""

    async def scenario() -> None:
        cloud = Cloud(5.0)
        shared = cloud.shared()
        waiting = [later(at, lambda: shared.get(now())) for at in (0, 1, 2, 3, 4)]
        assert await asyncio.gather(*waiting) == [0.0, 5.0, 5.0, 5.0, 5.0]
        assert cloud.asked == [0.0, 5.0]

    run(scenario())


def test_a_rest_lets_one_list_serve_several() -> None:
    """As long as two requests take; whoever comes during it joins."""

    async def scenario() -> None:
        cloud = Cloud(1.0)
        shared = cloud.shared(rest=60.0)
        waiting = [later(at, lambda: shared.get(now())) for at in (0, 1.5, 2.0, 2.5)]
        assert await asyncio.gather(*waiting) == [0.0, 3.0, 3.0, 3.0]
        await asyncio.sleep(10)
        assert await shared.get(now()) == 14.0

    run(scenario())


def test_a_rest_has_an_end() -> None:
    """A request that waits long for its turn is no reason to rest long."""

    async def scenario() -> None:
        cloud = Cloud(30.0)
        shared = cloud.shared(rest=1.0)
        await shared.get(0.0)
        assert await shared.get(now()) == 31.0

    run(scenario())


def test_an_empty_list_is_an_answer() -> None:
    """Nothing there is worth keeping as well."""

    async def scenario() -> None:
        calls = []

        async def fetch() -> tuple[str, ...]:
            calls.append(now())
            return ()

        shared = Shared(fetch, now)
        assert await shared.get(0.0) == ()
        assert await shared.get(0.0) == ()
        assert len(calls) == 1

    run(scenario())


def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    """A list that failed says nothing; the next question asks anew."""

    async def scenario() -> None:
        cloud = Cloud(1.0, failing=frozenset({0}))
        shared = cloud.shared()
        answers = await asyncio.gather(*(shared.get(0.0) for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [Failed] * 3
        assert await shared.get(0.0) == 1.0

    run(scenario())


def test_a_failure_leaves_the_older_list_to_those_who_may_use_it() -> None:
    """The last good list stays good for its age."""

    async def scenario() -> None:
        cloud = Cloud(1.0, failing=frozenset({1}))
        shared = cloud.shared()
        await shared.get(0.0)
        with pytest.raises(Failed):
            await shared.get(now())
        assert await shared.get(0.0) == 0.0
        assert len(cloud.asked) == 2

    run(scenario())


def test_a_failure_of_an_older_request_is_not_passed_on() -> None:
    """Whoever only waits for its end gets the next list."""

    async def scenario() -> None:
        cloud = Cloud(5.0, failing=frozenset({0}))
        shared = cloud.shared()
        first = asyncio.create_task(shared.get(0.0))
        await asyncio.sleep(1)
        assert await shared.get(now()) == 5.0
        with pytest.raises(Failed):
            await first

    run(scenario())


@pytest.mark.parametrize("since", [0.0, 1.0])
def test_a_caller_who_gives_up_leaves_the_answer_to_the_others(since: float) -> None:
    """The one who made the request may go; those who joined are served by it."""

    async def scenario() -> None:
        cloud = Cloud(5.0)
        shared = cloud.shared()
        first = asyncio.create_task(shared.get(0.0))
        await asyncio.sleep(1)
        second = asyncio.create_task(shared.get(since))
        await asyncio.sleep(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == (0.0 if since == 0.0 else 5.0)

    run(scenario())


def test_a_failure_that_nobody_waits_for_is_no_noise() -> None:
    """The only caller went away: its failure is not reported as never retrieved."""

    async def scenario() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )
        cloud = Cloud(1.0, failing=frozenset({0}))
        shared = cloud.shared()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await shared.get(0.0)
        await asyncio.sleep(5)
        assert cloud.in_flight == 0
        assert reported == []
        assert await shared.get(0.0) == 5.5

    run(scenario())


def test_the_future_is_asked_for_now() -> None:
    """A moment that has not come yet cannot be listed: the freshest list there is serves."""

    async def scenario() -> None:
        cloud = Cloud(1.0)
        shared = cloud.shared()
        await shared.get(0.0)
        assert await shared.get(now() + 100) == 1.0

    run(scenario())


class Caller(Struct, frozen=True):
    """Somebody who asks at a moment for a list of some age, and may lose patience."""

    at: int
    age: int
    patience: int | None


class Asked(Struct, frozen=True):
    """What a caller asked for, and got when."""

    at: float
    since: float
    answer: float | None
    done: float


CALLERS = st.lists(
    st.builds(
        Caller,
        at=st.integers(0, 12),
        age=st.integers(0, 6),
        patience=st.none() | st.integers(0, 8),
    ),
    min_size=1,
    max_size=10,
)


async def ask(shared: Shared[float], caller: Caller) -> Asked:
    await asyncio.sleep(caller.at)
    at = now()
    answer = None
    try:
        async with asyncio.timeout(caller.patience):
            answer = await shared.get(at - caller.age)
    except (Failed, TimeoutError):
        pass
    return Asked(at, at - caller.age, answer, now())


@always
@given(
    CALLERS,
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.frozensets(st.integers(0, 6)),
    st.integers(0, 3),
)
def test_any_interleaving(
    callers: list[Caller], takes: list[int], failing: frozenset[int], rest: int
) -> None:
    """Every answer is new enough and never late, and at most one request is under way."""

    async def scenario() -> None:
        cloud = Cloud(*(float(seconds) for seconds in takes), failing=failing)
        shared = cloud.shared(rest)
        results = await asyncio.gather(*(ask(shared, caller) for caller in callers))
        assert cloud.most_in_flight <= 1
        assert len(cloud.asked) <= len(callers)
        for result in results:
            assert result.done - result.at <= 2 * max(takes) + rest
            if result.answer is not None:
                assert result.since <= result.answer <= result.done
        await asyncio.sleep(max(takes) + rest)  # until what impatient callers left is over
        assert cloud.in_flight == 0

    run(scenario())
