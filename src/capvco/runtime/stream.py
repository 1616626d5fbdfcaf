"""List and watch of one kind as values: listings and events.

An object that cannot be decoded is a value too (``Broken``), since one bad object must not end
the stream for all others.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeAlias

import msgspec

from capvco.runtime.errors import Expired, KubeError, Undecodable, error_of
from capvco.runtime.kinds import Key, Kind, T
from capvco.runtime.transport import Transport

_PAGE = 500
_BREATH = 100  # objects decoded before the event loop gets its turn: about 5 ms


@dataclass(frozen=True)
class Scope:
    """Which objects of a kind: one namespace or all, and a label selector."""

    namespace: str | None = None
    labels: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The scope as query parameters."""
        return {"labelSelector": self.labels} if self.labels else {}


@dataclass(frozen=True)
class Limits:
    """When a watch ends by itself, and when its connection counts as dead, both in seconds.

    Bookmarks come about once a minute, so a live connection is never silent for longer.
    """

    seconds: int
    silence: float = 75.0


@dataclass(frozen=True)
class Put(Generic[T]):
    """An object was created or changed."""

    obj: T


@dataclass(frozen=True)
class Drop:
    """An object was deleted, or no longer matches the selector."""

    key: Key
    uid: str
    version: str


@dataclass(frozen=True)
class Mark:
    """A bookmark: everything up to this version has been sent."""

    version: str


@dataclass(frozen=True)
class Broken:
    """An object exists and cannot be decoded."""

    key: Key
    uid: str
    version: str
    message: str


Event: TypeAlias = Put[T] | Drop | Mark | Broken


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects in a scope at one version of the cluster."""

    version: str
    items: tuple[T, ...]
    broken: tuple[Broken, ...] = ()


class _HeadMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, frozen=True):
    """The part of an object that decodes even if the rest does not."""

    metadata: _HeadMeta = _HeadMeta()


class _PageMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_Page)
_line = msgspec.json.Decoder(_Line)
_head = msgspec.json.Decoder(_Head)


async def list_cached(transport: Transport, kind: Kind[T], scope: Scope) -> Listing[T]:
    """List what the apiserver has in memory: cheap, and possibly a little behind."""
    return await _list(transport, kind, scope, {"resourceVersion": "0"})


async def list_latest(transport: Transport, kind: Kind[T], scope: Scope) -> Listing[T]:
    """List the latest state in pages, or in one piece when a page token expires on the way."""
    try:
        return await _list(transport, kind, scope, {"limit": str(_PAGE)})
    except Expired:
        return await _list(transport, kind, scope, {})


async def watch(
    transport: Transport,
    kind: Kind[T],
    scope: Scope,
    *,
    version: str,
    limits: Limits,
) -> AsyncGenerator[Event[T], None]:
    """Yield what happens after a version, until the apiserver ends the watch.

    Raises Expired when the version is unknown to the apiserver, however it says so: list again.
    """
    params = scope.params | {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(limits.seconds),
    }
    path = kind.path(scope.namespace)
    lines = transport.lines(path, params=params, silence=limits.silence)
    async with aclosing(lines):
        async for line in lines:
            if line:
                yield _event(kind, line)


async def _list(
    transport: Transport, kind: Kind[T], scope: Scope, params: dict[str, str]
) -> Listing[T]:
    path = kind.path(scope.namespace)
    items: list[T] = []
    broken: list[Broken] = []
    query = scope.params | params
    while True:
        page = _decode_page(await transport.request("GET", path, params=query), path)
        for number, raw in enumerate(page.items or ()):
            if number % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
            _sort_in(_decode(kind, raw), items.append, broken.append)
        if not page.metadata.continue_:
            return Listing(page.metadata.resource_version, tuple(items), tuple(broken))
        query = scope.params | params | {"continue": page.metadata.continue_}


def _sort_in(
    event: Put[T] | Broken, good: Callable[[T], None], bad: Callable[[Broken], None]
) -> None:
    if isinstance(event, Put):
        good(event.obj)
    else:
        bad(event)


def _decode_page(body: bytes, path: str) -> _Page:
    try:
        return _page.decode(body)
    except msgspec.DecodeError as error:
        raise Undecodable(200, "Undecodable", f"GET {path}: not a list: {error}") from error


def _decode(kind: Kind[T], raw: msgspec.Raw) -> Put[T] | Broken:
    """Decode an object, or at least say which one it is."""
    try:
        return Put(kind.decoder.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        head = _decode_head(raw)
        key = Key(head.namespace, head.name)
        return Broken(key, head.uid, head.resource_version, f"{kind} {key}: {error}")


def _decode_head(raw: msgspec.Raw) -> _HeadMeta:
    try:
        return _head.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(200, "Undecodable", f"an object without metadata: {error}") from error


def _event(kind: Kind[T], line: bytes) -> Event[T]:
    try:
        said = _line.decode(line)
    except msgspec.DecodeError as error:
        raise Undecodable(200, "Undecodable", f"watch of {kind}: {error}") from error
    match said.type:
        case "ADDED" | "MODIFIED":
            return _decode(kind, said.object)
        case "DELETED":
            head = _decode_head(said.object)
            return Drop(Key(head.namespace, head.name), head.uid, head.resource_version)
        case "BOOKMARK":
            return Mark(_decode_head(said.object).resource_version)
        case "ERROR":
            raise error_of(0, bytes(said.object), where=f"watch of {kind}")
        case other:
            raise KubeError(200, "Unknown", f"watch of {kind}: event of unknown type {other}")
