"""Repeated while it may pass, and no longer than asked."""

import asyncio

import pytest

from capvco.cli.imagepublish.patience import Patience
from capvco.vco.errors import (
    Forbidden,
    Malformed,
    NotFound,
    Refused,
    Throttled,
    UnknownOutcome,
    Unreachable,
    VCOError,
)

PATIENCE = Patience(tries=4, first_wait=1.0, longest_wait=8.0, poll=3.0)


def error(kind: type[VCOError], retry_after: float | None = None) -> VCOError:
    return kind("PUT", "/part", 500, "words", retry_after=retry_after)


class Script:
    """Fails as told, then gives a value."""

    def __init__(self, *failures: VCOError, value: str | None = "done") -> None:
        self.failures, self.value, self.calls = list(failures), value, 0

    async def __call__(self) -> str | None:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.value


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [UnknownOutcome, Unreachable, Throttled])
async def test_what_may_pass_is_repeated(kind: type[VCOError]) -> None:
    """And mentioned, with the number of the try."""
    said, script = list[str](), Script(error(kind), error(kind), error(kind))
    assert await PATIENCE.repeat(script, said.append) == "done"
    assert script.calls == 4
    assert [text[:13] for text in said] == [f"try {n} of 4: P" for n in (1, 2, 3)]


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [Refused, NotFound, Forbidden, Malformed])
async def test_what_will_not_pass_is_not_repeated(kind: type[VCOError]) -> None:
    """It is raised at once."""
    script = Script(error(kind))
    with pytest.raises(kind):
        await PATIENCE.repeat(script, lambda _: None)
    assert script.calls == 1


@pytest.mark.looptime
async def test_tries_end() -> None:
    """With the last error."""
    script = Script(*(error(Unreachable) for _ in range(9)))
    with pytest.raises(Unreachable):
        await PATIENCE.repeat(script, lambda _: None)
    assert script.calls == 4


@pytest.mark.looptime
async def test_a_pause_that_is_asked_for_is_kept() -> None:
    """Not shortened to our own waits."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    await PATIENCE.repeat(Script(error(Throttled, retry_after=120.0)), lambda _: None)
    assert clock() - begun == pytest.approx(120.0, abs=0.1)


@pytest.mark.looptime
async def test_a_wait_has_an_end() -> None:
    """The last look is at the end, not before."""
    clock = asyncio.get_running_loop().time
    begun, script = clock(), Script(value=None)
    assert await PATIENCE.until(script, 10.0, lambda _: None) is None
    assert clock() - begun == pytest.approx(10.0, abs=0.1)
    assert script.calls == 5


@pytest.mark.looptime
async def test_a_wait_outlives_failures_that_may_pass() -> None:
    """And no others."""
    said = list[str]()
    script = Script(error(Unreachable), error(Malformed), error(Throttled))
    assert await PATIENCE.until(script, 60.0, said.append) == "done"
    assert len(said) == 3
    with pytest.raises(Forbidden):
        await PATIENCE.until(Script(error(Forbidden)), 60.0, said.append)
    with pytest.raises(Unreachable):
        await PATIENCE.until(Script(error(Unreachable)), 0.0, said.append)
