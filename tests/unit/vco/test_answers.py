"""What an answer means: the table of statuses, bodies and kinds of call."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import msgspec
import pytest

from capvco.vco import errors as e
from capvco.vco.answers import (
    LONGEST_WAIT,
    UNNAMED_WAIT,
    WORDS_LIMIT,
    Answer,
    failure,
    retry_after,
    shorten,
)
from capvco.vco.call import Call, read

READ = read("/locations")
WRITE = Call(method="POST", route="/vms/{vm_id}/start")
RESERVE = Call(method="POST", route="/gpus/{gpu_id}", capacity=frozenset({400, 409, 503}))
NO = b'{"message": "no"}'
NONE_FREE = b'{"message": "No GPU instances available for this profile"}'
PAGE = b"<html><head><title>502 Bad\n Gateway &amp; more</title></head></html>"
NOT_UTF8 = b"\xff\xfe broken"


@pytest.mark.parametrize(
    ("call", "status", "body", "kind"),
    [
        # The API's own refusals, for reads and mutations alike.
        (READ, 400, NO, e.Refused),
        (WRITE, 400, NO, e.Refused),
        (READ, 404, NO, e.NotFound),
        (WRITE, 404, NO, e.NotFound),
        (WRITE, 409, NO, e.Conflict),
        (WRITE, 403, NO, e.Forbidden),
        (WRITE, 422, NO, e.Refused),
        # Whoever says these, the request was not passed on.
        (READ, 401, b"", e.Unauthorized),
        (WRITE, 401, PAGE, e.Unauthorized),
        (WRITE, 429, PAGE, e.Throttled),
        (READ, 429, NO, e.Throttled),
        (WRITE, 414, PAGE, e.Refused),
        (WRITE, 413, PAGE, e.Refused),
        # A proxy knows nothing about what exists or is allowed.
        (READ, 404, PAGE, e.Unreachable),
        (WRITE, 404, PAGE, e.UnknownOutcome),
        (READ, 404, b"default backend - 404", e.Unreachable),
        (READ, 404, b"", e.Unreachable),
        (READ, 404, b'"not an object"', e.Unreachable),
        (READ, 400, PAGE, e.Unreachable),
        (WRITE, 400, PAGE, e.UnknownOutcome),
        (READ, 403, PAGE, e.Unreachable),
        (WRITE, 403, PAGE, e.UnknownOutcome),
        (WRITE, 408, NO, e.UnknownOutcome),
        (READ, 400, NOT_UTF8, e.Unreachable),
        # Failures on the way or behind it.
        (READ, 500, NO, e.Unreachable),
        (WRITE, 500, NO, e.UnknownOutcome),
        (WRITE, 502, PAGE, e.UnknownOutcome),
        (WRITE, 503, NO, e.UnknownOutcome),
        (WRITE, 504, PAGE, e.UnknownOutcome),
        (READ, 504, PAGE, e.Unreachable),
        (READ, 302, b"", e.Malformed),
        (WRITE, 307, b"", e.UnknownOutcome),
        # Capacity, only where it was asked for and only in words that mean it.
        (RESERVE, 409, NONE_FREE, e.NoCapacity),
        (RESERVE, 400, NONE_FREE, e.NoCapacity),
        (RESERVE, 503, NONE_FREE, e.NoCapacity),
        (RESERVE, 500, NONE_FREE, e.UnknownOutcome),
        (RESERVE, 503, PAGE, e.UnknownOutcome),
        (RESERVE, 503, b'{"message": "Service temporarily unavailable"}', e.UnknownOutcome),
        (RESERVE, 409, b'{"message": "name exists"}', e.Conflict),
        (RESERVE, 400, b'{"message": "vgpu_name is not available"}', e.Refused),
        (RESERVE, 404, b'{"message": "no such profile"}', e.NotFound),
        (WRITE, 409, NONE_FREE, e.Conflict),
    ],
)
def test_meaning(call: Call, status: int, body: bytes, kind: type[e.VCOError]) -> None:
    """Status, body and kind of call decide, and only the API's own JSON counts as its word."""
    error = failure(call, Answer(status, body))
    assert type(error) is kind
    assert (error.method, error.route, error.status) == (call.method, call.route, status)


@pytest.mark.parametrize(
    "text",
    [
        "Not enough resources available to provision the requested machine",
        "Insufficient GPU resources",
        "no capacity left",
        "No free instances of profile a100",
        "No vGPU instance is available",
        "available_instances is 0",
        "GPU profile exhausted",
        "There are no more instances",
        "out of capacity",
    ],
)
def test_words_for_capacity(text: str) -> None:
    """The ways in which a shortage may be put are all recognised."""
    answer = Answer(409, msgspec.json.encode({"message": text}))
    assert type(failure(RESERVE, answer)) is e.NoCapacity


@pytest.mark.parametrize(
    "text",
    [
        "No available server",
        "Selected name already exists",
        "Resource is locked",
        "GPU not found",
        "The instance is busy",
        "",
    ],
)
def test_other_words(text: str) -> None:
    """What merely sounds like it is not taken for a shortage."""
    answer = Answer(409, msgspec.json.encode({"message": text}))
    assert type(failure(RESERVE, answer)) is e.Conflict


def test_whether_anything_happened() -> None:
    """A caller can rely on `nothing_happened`, and on Refused being about the request alone."""
    for kind in (e.Refused, e.CredentialsRefused, e.Throttled, e.Unreachable, e.Malformed):
        assert kind.nothing_happened
    assert not e.UnknownOutcome.nothing_happened
    for passing in (e.CredentialsRefused, e.Throttled):
        assert not issubclass(passing, e.Refused), "final for Refused, curable for this one"


def test_message_has_route_status_words_and_meaning() -> None:
    """A message tells what was asked, what was said, and what follows from it."""
    body = msgspec.json.encode(
        {"message": "Input payload\nvalidation failed", "errors": {"memory": "must be even"}}
    )
    assert str(failure(WRITE, Answer(400, body))) == (
        "POST /vms/{vm_id}/start was answered 400: Input payload validation failed; memory: must be"
        " even (the platform refused, nothing happened; the same request will be refused again)"
    )


def test_unexpected_failure_keeps_the_support_code() -> None:
    """The code that support asks for is in the message."""
    body = b'{"message": "Give this code to support", "errorcode": "a1b2-1638.5"}'
    assert "errorcode a1b2-1638.5" in str(failure(READ, Answer(500, body)))


def test_web_page_is_reduced_to_its_title() -> None:
    """Of a web page only the title is repeated."""
    error = failure(READ, Answer(502, PAGE))
    assert error.words == "web page '502 Bad Gateway & more'"


def test_words_are_short_and_on_one_line() -> None:
    """Whatever is answered, the message stays readable."""
    error = failure(READ, Answer(500, b"x\x00\x1b[31m\n" * 1000))
    assert len(error.words) == WORDS_LIMIT
    assert error.words.isprintable()
    assert failure(READ, Answer(500, b"")).words == "no words"


def test_redirect_names_the_target_without_its_query() -> None:
    """A wrong apiURL is recognisable by where it leads."""
    error = failure(READ, Answer(301, b"", redirect="https://elsewhere.test"))
    assert "https://elsewhere.test" in error.words
    assert "apiURL" in error.words


def test_hidden_texts_and_tokens_are_blotted_out() -> None:
    """Secrets do not come back in the platform's words, known to us or not."""
    call = Call(method="POST", route="/vms", hidden=("hunter2-hunter2", "hunter2"))
    body = b'{"message": "bad password hunter2-hunter2, token eyJhbGciOi.eyJleHAi.c2ln was used"}'
    assert (
        failure(call, Answer(400, body)).words == "bad password [hidden], token [hidden] was used"
    )
    assert shorten("a hunter2 b", ("hunter2",)) == "a [hidden] b"


NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("7", 7.0),
        ("0.5", 0.5),
        (" 12 ", 12.0),
        ("-3", 0.0),
        ("86400", LONGEST_WAIT),
        ("inf", LONGEST_WAIT),
        (format_datetime(NOW + timedelta(seconds=9), usegmt=True), 9.0),
        (
            format_datetime((NOW + timedelta(seconds=9)).astimezone(timezone(timedelta(hours=2)))),
            9.0,
        ),
        ("Mon, 30 Nov 2026 12:00:09 -0000", 9.0),
        ("Sun, 29 Nov 2026 12:00:00 GMT", 0.0),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    """Seconds and dates are read, nonsense is not, and nobody stops us for longer than the cap."""
    assert retry_after(header, NOW) == seconds


def test_throttled_without_a_time_gets_one() -> None:
    """A 429 always says how long to wait."""
    assert failure(WRITE, Answer(429, b"")).retry_after == UNNAMED_WAIT
    assert failure(WRITE, Answer(429, b"", retry_after=30)).retry_after == 30
    assert "try again in 30 s" in str(failure(WRITE, Answer(429, b"", retry_after=30)))


def test_error_can_be_raised_again() -> None:
    """A kept error yields fresh ones that say the same."""
    error = failure(WRITE, Answer(429, b"", retry_after=30))
    fresh = error.again()
    assert fresh is not error
    assert (type(fresh), str(fresh), fresh.retry_after) == (e.Throttled, str(error), 30)
