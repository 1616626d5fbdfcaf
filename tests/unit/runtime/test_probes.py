import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter

from capvco.runtime.probes import Probes


@asynccontextmanager
async def serving(probes: Probes) -> AsyncIterator[None]:
    started = asyncio.Event()
    task = asyncio.ensure_future(probes.run(started))
    await started.wait()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def ask(port: int, raw: bytes) -> tuple[int, str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head, body


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


async def test_health_readiness_and_metrics() -> None:
    """Healthy at once, ready when every check is content, metrics where they were asked for."""
    registry = CollectorRegistry()
    Counter("beans", "beans", registry=registry).inc(3)
    wrong = {"cache": "secrets is forbidden"}
    probes = Probes(
        health="127.0.0.1:0",
        metrics="localhost:0",
        checks={"cache": lambda: wrong["cache"]},
        registry=registry,
    )
    async with serving(probes):
        health, metrics = probes.ports["127.0.0.1:0"], probes.ports["localhost:0"]
        assert (await ask(health, get("/healthz")))[0] == 200
        status, _, body = await ask(health, get("/readyz?verbose"))
        assert status == 503
        assert "[-] cache: secrets is forbidden" in body
        wrong["cache"] = ""
        assert (await ask(health, get("/readyz")))[0] == 200
        assert (await ask(health, get("/metrics")))[0] == 404
        status, head, body = await ask(metrics, get("/metrics"))
        assert (status, "text/plain" in head) == (200, True)
        assert "beans_total 3.0" in body
        status, head, body = await ask(
            metrics, get("/metrics", "Accept: application/openmetrics-text; version=1.0.0")
        )
        assert "application/openmetrics-text" in head
        assert body.endswith("# EOF\n")


async def test_one_address_can_serve_all_and_another_nothing() -> None:
    """The same address twice is one server; an empty address is none."""
    both = Probes(health="127.0.0.1:0", metrics="127.0.0.1:0", registry=CollectorRegistry())
    async with serving(both):
        (port,) = both.ports.values()
        assert (await ask(port, get("/healthz")))[0] == 200
        assert (await ask(port, get("/metrics")))[0] == 200
    none = Probes(health="", metrics="0", registry=CollectorRegistry())
    async with serving(none):
        assert none.ports == {}


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"hello\r\n\r\n", 400),
        (b"GET /healthz SPDY/3\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 40000 + b"\r\n\r\n", 400),
        (b"\xff\xfe\x00 / HTTP/1.1\r\n\r\n", 404),
    ],
)
async def test_odd_requests_are_answered_and_harm_nobody(raw: bytes, status: int) -> None:
    """Whatever is sent gets an answer, and the next client is served."""
    probes = Probes(health="127.0.0.1:0", metrics="", registry=CollectorRegistry())
    async with serving(probes):
        (port,) = probes.ports.values()
        assert (await ask(port, raw))[0] == status
        assert (await ask(port, get("/healthz")))[0] == 200


async def test_head_has_no_body_and_a_failing_check_is_a_500() -> None:
    """HEAD works for load balancers; a check that raises does not end the server."""
    probes = Probes(health="127.0.0.1:0", metrics="", registry=CollectorRegistry())

    def broken() -> str:
        raise LookupError("oops")

    async with serving(probes):
        (port,) = probes.ports.values()
        status, head, body = await ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert (status, body) == (200, "")
        assert "Content-Length: 3" in head
        probes.add_check("broken", broken)
        assert (await ask(port, get("/readyz")))[0] == 500
        assert (await ask(port, get("/healthz")))[0] == 200


async def test_a_client_that_says_nothing_or_leaves_is_forgotten() -> None:
    """A connection without a request ends without an answer and without a trace."""
    probes = Probes(health="127.0.0.1:0", metrics="", registry=CollectorRegistry())
    async with serving(probes):
        (port,) = probes.ports.values()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hea")
        writer.close()
        await writer.wait_closed()
        assert (await ask(port, get("/healthz")))[0] == 200


async def test_an_address_in_use_is_an_error() -> None:
    """A port that cannot be had is said at the start."""
    one = Probes(health="127.0.0.1:0", metrics="", registry=CollectorRegistry())
    async with serving(one):
        (port,) = one.ports.values()
        two = Probes(health=f"127.0.0.1:{port}", metrics="", registry=CollectorRegistry())
        with pytest.raises(OSError, match="address already in use"):
            await two.run()
