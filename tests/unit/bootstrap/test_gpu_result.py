"""The line that the GPU step leaves: read back whole, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.bootstrap.gpu_result import GPUResult, parse
from tests.support.properties import always

FAILED = b"failed verify TooFewCards branch=570 cards=1 bus=2: the driver shows 1 of 2\n"


def test_ok() -> None:
    """A step that ended well has numbers and no cause."""
    assert parse(b"ok verify - branch=580 cards=2 bus=2\n") == GPUResult(
        ok=True, step="verify", cause="", branch="580", cards=2, bus=2, words=""
    )


def test_failed() -> None:
    """A failure has step, cause and words."""
    found = parse(FAILED)
    assert found is not None
    assert not found.ok
    assert (found.step, found.cause) == ("verify", "TooFewCards")
    assert found.words == "the driver shows 1 of 2"


def test_no_driver_loaded() -> None:
    """Without a module there is no branch."""
    found = parse(b"failed preflight NoCard branch=- cards=0 bus=0: none: at all")
    assert found is not None
    assert (found.branch, found.words) == ("", "none: at all")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"ok\n", b"ok verify - branch= cards=1 bus=1", FAILED[:30], b"\xff", b"<html>"],
)
def test_anything_else(content: bytes) -> None:
    """Half a line, or something of somebody else's, is no result."""
    assert parse(content) is None


def test_control_characters_go() -> None:
    """What is shown in a condition cannot play with a terminal."""
    found = parse(FAILED.replace(b"shows", b"\x1b[31mshows"))
    assert found is not None
    assert "\x1b" not in found.words


@always
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Whatever a node has there is answered."""
    parse(FAILED[:20] + content)
    parse(content)
