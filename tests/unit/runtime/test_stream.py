import json
from collections.abc import Mapping

import pytest

from capvco.runtime.errors import (
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Throttled,
    Undecodable,
    Unreachable,
)
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube
from capvco.runtime.stream import Broken, Drop, Event, Limits, Mark, Put, Scope

from .scripted import SILENCE, Reply, answering
from .virtual import THINGS, Thing, a_thing

LIMITS = Limits(seconds=240, silence=5)


def wire(name: str, version: int = 1, **more: object) -> dict[str, object]:
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "managedFields": [{"manager": "m"}],
    }
    return {"apiVersion": "test.capvco.io/v1", "kind": "Thing", "metadata": meta, **more}


def line(type_: str, obj: Mapping[str, object]) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def page(*items: Mapping[str, object], version: int = 9, token: str = "") -> Reply:
    meta = {"resourceVersion": str(version), "continue": token}
    return Reply([json.dumps({"metadata": meta, "items": items}).encode()])


def a_status(code: int, reason: str = "", message: str = "") -> dict[str, object]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


def refusal(code: int, reason: str = "", message: str = "", *headers: str) -> Reply:
    return Reply([json.dumps(a_status(code, reason, message)).encode()], code, headers)


async def watched(kube: Kube, limits: Limits = LIMITS) -> list[Event[Thing]]:
    scope = Scope("ns", "a=b")
    return [e async for e in kube.watch(THINGS, scope, version="5", limits=limits)]


async def test_a_watch_is_events_however_its_bytes_are_cut() -> None:
    """Lines cut at every byte, several in one piece, and empty lines mean the same events."""
    body = (
        line("ADDED", wire("one", 6, spec={"x": "é" * 3}))
        + b"\n"
        + line("DELETED", wire("two", 7))
        + line("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
        + line("MODIFIED", wire("bad", 9, spec="not a mapping"))
        + line("MODIFIED", wire("one", 10))
    )
    pieces = [[body[i : i + 1] for i in range(len(body))], [body[:50], body[50:]], [body]]
    for cut in pieces:
        async with answering(Reply(cut)) as (kube, script):
            events = await watched(kube)
        assert events[0] == Put(a_thing("one", version=6, spec={"x": "ééé"}))
        assert events[1:3] == [Drop(Key("ns", "two"), "uid-two", "7"), Mark("8")]
        broken = events[3]
        assert isinstance(broken, Broken)
        assert (broken.key, broken.uid, broken.version) == (Key("ns", "bad"), "uid-bad", "9")
        assert "things.test.capvco.io ns/bad: Expected `object`" in broken.message
        assert events[4:] == [Put(a_thing("one", version=10))]
        assert script.requests == [
            (
                "GET /apis/test.capvco.io/v1/namespaces/ns/things?labelSelector=a%3Db&watch=1"
                "&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=240"
            )
        ]


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (Reply([line("ERROR", a_status(410, "Expired", "too old"))]), Expired, "too old"),
        (refusal(410, "Expired", "too old"), Expired, "too old"),
        (refusal(504, "Timeout", "Too large resource version: 9"), Expired, "Too large"),
        (
            Reply([line("ERROR", a_status(504, "Timeout", "Too large resource version"))]),
            Expired,
            "Too large",
        ),
        (Reply([line("ERROR", a_status(500, "", "etcd"))]), KubeError, r"etcd \(500\)"),
        (Reply([line("SURPRISE", {})]), KubeError, "SURPRISE"),
        (Reply([b"<html>proxy</html>\n"]), Undecodable, "watch of things"),
        (Reply([line("ADDED", {"metadata": 5})]), Undecodable, "without metadata"),
        (refusal(403, "Forbidden", "things is forbidden"), Forbidden, "forbidden"),
        (Reply([line("ADDED", wire("x", 6)), SILENCE]), Unreachable, "ReadTimeout"),
        (Reply([b'{"type":"ADDED"'], length=4000), Unreachable, "no answer from 127"),
    ],
)
async def test_every_end_of_a_watch_has_its_error(
    reply: Reply, error: type[KubeError], said: str
) -> None:
    """In the stream or as HTTP status, by silence or by a torn connection."""
    async with answering(reply) as (kube, _):
        with pytest.raises(error, match=said) as caught:
            await watched(kube, Limits(240, silence=0.3 if SILENCE in reply.body else 30))
        assert type(caught.value) is error


@pytest.mark.parametrize(
    ("reply", "error", "retry_after"),
    [
        (refusal(404, "NotFound", "gone"), NotFound, None),
        (refusal(409, "Conflict", "modified"), Conflict, None),
        (refusal(422, "Invalid", "bad"), Invalid, None),
        (refusal(400, "BadRequest", "bad"), Invalid, None),
        (refusal(401, "Unauthorized", "who"), Forbidden, None),
        (refusal(429, "TooManyRequests", "slow", "Retry-After: 7"), Throttled, 7.0),
        (refusal(503, "ServiceUnavailable", "starting", "Retry-After: 2"), KubeError, 2.0),
        (Reply([b"<h1>Bad gateway</h1>"], 502), KubeError, None),
        (Reply([b"\xff\xfe"], 500, ("Retry-After: soon",)), KubeError, None),
    ],
)
async def test_every_refusal_has_its_error(
    reply: Reply, error: type[KubeError], retry_after: float | None
) -> None:
    """By status code, with the pause the apiserver asks for, whatever the body is."""
    async with answering(reply) as (kube, _):
        with pytest.raises(KubeError) as caught:
            await kube.get(THINGS, "ns", "x")
        assert type(caught.value) is error
        assert caught.value.retry_after == retry_after
        assert caught.value.status == reply.status
        assert "GET /apis/test.capvco.io/v1/namespaces/ns/things/x: " in str(caught.value)


async def test_a_list_goes_page_by_page() -> None:
    """Pages are one list at the last page's version; odd objects are told apart."""
    pages = [
        page(wire("a"), wire("bad", 3, spec=[1]), token="t&1"),
        page(wire("b"), version=10),
    ]
    async with answering(*pages) as (kube, script):
        listing = await kube.listing(THINGS, Scope(labels="x"), latest=True)
    assert listing.version == "10"
    assert [obj.metadata.name for obj in listing.items] == ["a", "b"]
    assert [broken.key.name for broken in listing.broken] == ["bad"]
    path = "GET /apis/test.capvco.io/v1/things?labelSelector=x&limit=500"
    assert script.requests == [path, f"{path}&continue=t%261"]


async def test_an_expired_page_token_means_one_whole_list() -> None:
    """When paging takes too long the list is asked for in one piece."""
    replies = [page(wire("a"), token="t"), refusal(410, "Expired"), page(wire("a"), wire("b"))]
    async with answering(*replies) as (kube, script):
        listing = await kube.listing(THINGS, Scope(), latest=True)
    assert len(listing.items) == 2
    assert script.requests[-1] == "GET /apis/test.capvco.io/v1/things"


async def test_the_first_list_may_come_from_memory_and_be_empty() -> None:
    """The cheap list asks for version 0; null means no items."""
    body = b'{"metadata":{"resourceVersion":"4"},"items":null}'
    async with answering(Reply([body])) as (kube, script):
        listing = await kube.listing(THINGS, Scope(), latest=False)
    assert (listing.version, listing.items) == ("4", ())
    assert script.requests == ["GET /apis/test.capvco.io/v1/things?resourceVersion=0"]


async def test_an_answer_that_is_no_list_is_an_error() -> None:
    """An HTML page with status 200 must not look like an empty list."""
    async with answering(Reply([b"<html>"]), Reply([b"{}"])) as (kube, _):
        with pytest.raises(Undecodable, match="not a list"):
            await kube.listing(THINGS, Scope(), latest=True)
        with pytest.raises(Undecodable, match="metadata"):
            await kube.listing(THINGS, Scope(), latest=True)
