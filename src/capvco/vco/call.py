"""One request, as a value: method, route template, and what goes into the path, query and body."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

Scalar = str | int | bool
QueryValue = Scalar | Sequence[str | int] | None


class Pace(StrEnum):
    """How long a call may take: the platform answers when it is done, and some things take long."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class Stream:
    """A body that is read while it is sent, so that it is never whole in memory.

    `open` may be called again, when the request is sent again; what it gives must have `length`
    bytes. What it raises comes out of the call as it is.
    """

    length: int
    open: Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to the API; what may hold secrets stays out of its repr."""

    method: str
    route: str
    """Route template below the API's base: `/customers/{customer_id}/locations`, for example."""
    path: Mapping[str, str | int] = field(default_factory=dict)
    query: Mapping[str, QueryValue] = field(default_factory=dict, repr=False)
    body: Mapping[str, object] | None = field(default=None, repr=False)
    content: bytes | Stream | None = field(default=None, repr=False)
    content_type: str = "application/octet-stream"
    pace: Pace = Pace.WRITE
    capacity: frozenset[int] = frozenset()
    """Statuses that may mean that what is asked for is used up, if the words agree."""
    safe: bool = False
    """Whether the call changes nothing, so that it may be repeated."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Texts that never appear in an error message, whoever repeats them."""

    def url_path(self, customer_id: str) -> str:
        """Fill the route template; every value is quoted as one segment.

        Raises ValueError for a value that would turn the path into another endpoint's.
        """
        values = {"customer_id": customer_id, **self.path}
        return self.route.format_map({name: _segment(name, v) for name, v in values.items()})

    def url_query(self) -> dict[str, str]:
        """Render the query as the API reads it: true/false, lists by comma, None left out."""
        return {name: _render(v) for name, v in self.query.items() if v is not None}


def read(route: str, *, path: Mapping[str, str | int] | None = None, **query: QueryValue) -> Call:
    """Make a call that only reads."""
    return Call(method="GET", route=route, path=path or {}, query=query, pace=Pace.READ, safe=True)


def _segment(name: str, value: str | int) -> str:
    text = str(value)
    if text in ("", ".", ".."):
        raise ValueError(f"{name} is {text!r}, which cannot be part of a path")
    return quote(text, safe="")


def _render(value: Scalar | Sequence[str | int]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    return ",".join(str(item) for item in value)
