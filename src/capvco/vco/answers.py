"""What an HTTP answer means: success, or which of `errors`. Pure.

Only JSON objects count as the API's own word. Proxies in front of it answer with HTML and short
texts, also with 400 and 404, and know nothing about what exists.
"""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from http import HTTPStatus

import msgspec

from capvco.vco.call import Call
from capvco.vco.errors import (
    Conflict,
    Forbidden,
    Malformed,
    NoCapacity,
    NotFound,
    Refused,
    Throttled,
    Unauthorized,
    UnknownOutcome,
    Unreachable,
    VCOError,
)

WORDS_LIMIT = 300
LONGEST_WAIT = 300.0
"""Longest pause, in seconds, that an answer may ask of us."""
UNNAMED_WAIT = 5.0
"""Pause after a 429 that names none: the platform counts requests over 5 seconds."""

_REFUSALS: dict[int, type[VCOError]] = {
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.LOCKED: Conflict,
}
# A proxy says these instead of passing the request on, so its word is as good as the API's.
_WHOEVER_SAYS_IT: dict[int, type[VCOError]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Refused,
    HTTPStatus.REQUEST_URI_TOO_LONG: Refused,
    HTTPStatus.TOO_MANY_REQUESTS: Throttled,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: Refused,
}
_THING = r"(?:v?gpus?|instances?|resources?|cards?|profiles?|units?)"
_CAPACITY = re.compile(
    rf"""
      \b capacity \b | \b available_instances \b
    | \b (?:not\ enough|insufficient|out\ of|no\ more)\ (?:\w+\ ){{0,3}} {_THING} \b
    | \b no\ (?:\w+\ ){{0,3}} {_THING} \ (?:\w+\ ){{0,2}} (?:available|free|left) \b
    | \b no\ (?:\w+\ ){{0,2}} (?:available|free)\ (?:\w+\ ){{0,3}} {_THING} \b
    | \b {_THING} \ (?:\w+\ ){{0,2}} exhausted \b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_JWT = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*")


class Answer(msgspec.Struct, frozen=True):
    """An answer that arrived completely."""

    status: int
    body: bytes
    retry_after: float | None = None
    redirect: str = ""
    """Scheme and host that a redirect points to."""
    etag: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status says that it was done."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


def failure(call: Call, answer: Answer) -> VCOError:
    """Say what an answer with a failing status means for this call."""
    kind = _kind(call, answer)
    retry_after = answer.retry_after
    if kind is Throttled and retry_after is None:
        retry_after = UNNAMED_WAIT
    return kind(
        call.method, call.route, answer.status, words(answer, call.hidden), retry_after=retry_after
    )


def _kind(call: Call, answer: Answer) -> type[VCOError]:
    said = _object(answer.body)
    if (always := _WHOEVER_SAYS_IT.get(answer.status)) is not None:
        return always
    if said is not None and answer.status in call.capacity and _speaks_of_capacity(said):
        return NoCapacity
    if said is not None and _is_refusal(answer.status):
        return _REFUSALS.get(answer.status, Refused)
    if not call.safe:
        return UnknownOutcome
    return Malformed if answer.status < HTTPStatus.BAD_REQUEST else Unreachable


def _is_refusal(status: int) -> bool:
    # 408 is a proxy that lost patience, perhaps after it passed the request on.
    client_error = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return client_error and status != HTTPStatus.REQUEST_TIMEOUT


def _speaks_of_capacity(said: dict[str, object]) -> bool:
    return bool(_CAPACITY.search(str(said.get("message", ""))))


def not_json(call: Call, answer: Answer, why: str) -> VCOError:
    """Say what a success means whose body is not the JSON that is described."""
    kind = Malformed if call.safe else UnknownOutcome
    text = f"{why}; it begins: {words(answer, call.hidden)}" if answer.body else why
    return kind(call.method, call.route, answer.status, text)


def is_html(body: bytes) -> bool:
    """Tell a web page (or any other markup), which is never this API's answer."""
    return body.lstrip().startswith((b"<", b"\xef\xbb\xbf<"))


def words(answer: Answer, hidden: tuple[str, ...] = ()) -> str:
    """Return the platform's own words, on one line, shortened, without what must stay hidden."""
    if answer.redirect:
        return f"a redirect to {answer.redirect}; apiURL must name the API itself"
    text = answer.body.decode("utf-8", "replace")
    said = _object(answer.body)
    if said is not None:
        text = _from_object(said)
    elif is_html(answer.body):
        title = _TITLE.search(text)
        text = (
            f"web page {_one_line(unescape(title.group(1)))!r}" if title else "web page, no title"
        )
    return shorten(text, hidden) or "no words"


def shorten(text: str, hidden: tuple[str, ...] = ()) -> str:
    """Put a text on one line of bounded length, with the hidden parts and any JWT blotted out."""
    for secret in sorted(hidden, key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    text = _JWT.sub("[hidden]", text)
    line = _one_line(text)
    return line if len(line) <= WORDS_LIMIT else line[: WORDS_LIMIT - 1] + "…"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _object(body: bytes) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _from_object(said: dict[str, object]) -> str:
    parts = [str(said["message"])] if said.get("message") else []
    if isinstance(errors := said.get("errors"), dict):
        parts += [f"{name}: {text}" for name, text in errors.items()]
    if code := said.get("errorcode"):
        parts.append(f"errorcode {code}")
    return "; ".join(parts)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Read a Retry-After header, seconds or a date, into seconds, at most LONGEST_WAIT."""
    try:
        seconds = float(header or "")
    except ValueError:
        seconds = _until(header or "", now)
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT)


def _until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    # A date without a zone is in UTC, as all dates of HTTP are.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now.timestamp()
