import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from capvco.runtime import logs

Lines = Callable[[], list[dict[str, Any]]]

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("info", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:], root.level = before


def log_failure(words: str) -> None:
    def fail() -> None:
        raise ValueError(words)

    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("failed")


def test_a_line_is_json_with_what_was_bound(lines: Lines) -> None:
    """Time, level, event, fields and the reconcile's context, one line each."""
    log = structlog.get_logger()
    with structlog.contextvars.bound_contextvars(controller="c", name="n"):
        log.info("created", vm=5, other=object())
    log.debug("not shown")
    (line,) = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line.pop("other").startswith("<object object")
    assert line == {"event": "created", "level": "info", "vm": 5, "controller": "c", "name": "n"}


def test_exceptions_are_one_line(lines: Lines) -> None:
    """A traceback is a field, not twenty lines."""
    log_failure("bad\nnews")
    (line,) = lines()
    assert "ValueError: bad\nnews" in line["exception"]


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "hush-hush"},
        {"client_secret": "hush-hush"},
        {"Authorization": "Basic hush-hush"},
        {"userdata": "hush-hush"},
        {"headers": {"authorization": "hush-hush"}},
        {"request": [{"password": "hush-hush"}]},
        {"error": f"401 for {JWT}"},
        {"error": "sent Authorization: Bearer hush-hush-1234"},
        {"error": ValueError(f"{JWT}")},
    ],
)
def test_no_secret_is_logged(lines: Lines, fields: dict[str, object]) -> None:
    """Neither under a telling name nor inside other text, nor in a traceback."""
    structlog.get_logger().warning("odd", **fields)
    log_failure(f"Bearer hush-hush-1234 {JWT}")
    text = json.dumps(lines())
    assert "hush" not in text
    assert "c2lnbmF0dXJl" not in text
    assert "[redacted]" in text


def test_names_that_only_resemble_a_secret_are_kept(lines: Lines) -> None:
    """A count of tokens or the name of a Secret is no secret."""
    structlog.get_logger().info("ok", secret_name="s", tokens=3, token="")
    (line,) = lines()
    assert (line["secret_name"], line["tokens"], line["token"]) == ("s", 3, "")


def test_libraries_are_heard_from_warnings_on(lines: Lines) -> None:
    """Their lines look the same, and their chatter stays out."""
    library = logging.getLogger("some.library")
    library.info("HTTP Request: GET https://...")
    library.warning("odd %s", f"Bearer {JWT}")
    (line,) = lines()
    assert (line["logger"], line["level"]) == ("some.library", "warning")
    assert line["event"] == "odd Bearer [redacted]"


def test_an_unknown_level_is_refused() -> None:
    """The message says which there are."""
    with pytest.raises(ValueError, match="'loud': debug, info, warning or error"):
        logs.configure("loud")
