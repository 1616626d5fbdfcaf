"""The client over real sockets, before servers and proxies that misbehave."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trustme

from capvco.vco import errors as e
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.settings import ClientSettings
from tests.contract.vco.raw import (
    RawServer,
    Script,
    answers,
    hangs,
    raw_server,
    resets,
    says,
    says_and_closes,
    trickles,
)

QUICK = ClientSettings(
    read_seconds=0.3,
    write_seconds=0.3,
    create_seconds=0.3,
    connect_seconds=0.3,
    read_tries=1,
)
GPUS = {"result": [{"id": "a100", "available_instances": 2}]}
BODY = msgspec.json.encode(GPUS)
GOOD = answers(200, BODY)
RESERVED = answers(200, b'{"vgpu_id": "v-1"}')
NGINX = b"<html>\r\n<head><title>%s</title></head>\r\n<body>nginx</body></html>"

CUT = says_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + BODY)
CUT_JSON = answers(200, BODY[:-5])
CUT_CHUNKS = says_and_closes(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"res\r\n')
CUT_HEAD = says_and_closes(b"HTTP/1.1 200 OK\r\nContent-Le")
SILENT = says_and_closes(b"")
GARBAGE = says_and_closes(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
BAD_GZIP = answers(200, BODY, "Content-Encoding: gzip")
PAGE_200 = answers(200, NGINX % b"Maintenance", "Content-Type: text/html")
PAGE_400 = answers(400, NGINX % b"400 Bad Request", "Content-Type: text/html")
PAGE_404 = answers(404, NGINX % b"404 Not Found", "Content-Type: text/html")
PAGE_502 = answers(502, NGINX % b"502 Bad Gateway", "Content-Type: text/html")
PAGE_504 = answers(504, NGINX % b"504 Gateway Time-out", "Content-Type: text/html")
MOVED = answers(301, b"", "Location: https://elsewhere.test/api/1")


def credentials(url: str, ca: str = "") -> Credentials:
    return Credentials(api_url=f"{url}/api/1", customer_id="acme_1", jwt="a.b.c", ca_bundle=ca)


@asynccontextmanager
async def cloud(
    *scripts: Script, settings: ClientSettings = QUICK
) -> AsyncIterator[tuple[VCO, RawServer]]:
    async with (
        raw_server(*scripts) as server,
        VCO.open(credentials(server.url), settings=settings) as vco,
    ):
        yield vco, server


ODD = {
    "cut body": (CUT, e.Unreachable),
    "cut JSON": (CUT_JSON, e.Malformed),
    "cut chunks": (CUT_CHUNKS, e.Unreachable),
    "cut head": (CUT_HEAD, e.Unreachable),
    "silent": (SILENT, e.Unreachable),
    "reset": (resets, e.Unreachable),
    "garbage": (GARBAGE, e.Unreachable),
    "bad gzip": (BAD_GZIP, e.Unreachable),
    "hang": (hangs, e.Unreachable),
    "trickle": (trickles, e.Unreachable),
    "page 200": (PAGE_200, e.Malformed),
    "page 400": (PAGE_400, e.Unreachable),
    "page 404": (PAGE_404, e.Unreachable),
    "page 502": (PAGE_502, e.Unreachable),
    "page 504": (PAGE_504, e.Unreachable),
    "moved": (MOVED, e.Malformed),
}


@pytest.mark.parametrize("odd", ODD)
async def test_read(odd: str) -> None:
    """A read that is not answered properly is an error, soon, and never an empty list."""
    script, kind = ODD[odd]
    begun = time.monotonic()
    async with cloud(script) as (vco, _):
        with pytest.raises(e.VCOError) as failed:
            await vco.gpus.profiles("be-1")
    assert type(failed.value) is kind
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("odd", ODD)
async def test_mutation(odd: str) -> None:
    """A mutation that is not answered properly was sent once, and perhaps happened."""
    async with cloud(ODD[odd][0]) as (vco, server):
        with pytest.raises(e.UnknownOutcome):
            await vco.gpus.reserve("be-1", gpu_id="a100", name="n")
        assert server.requests == 1


@pytest.mark.parametrize("odd", ["silent", "reset", "cut body", "cut JSON", "page 502", "hang"])
async def test_read_bears_one_odd_answer(odd: str) -> None:
    """What goes wrong once does not reach whoever reads."""
    settings = msgspec.structs.replace(QUICK, read_tries=3)
    async with cloud(ODD[odd][0], GOOD, settings=settings) as (vco, server):
        assert (await vco.gpus.profiles("be-1"))[0].available_instances == 2
        assert server.requests == 2


async def test_nobody_listens() -> None:
    """Where nobody listens nothing was sent, for reads and mutations alike."""
    async with raw_server(GOOD) as server:
        url = server.url
    async with VCO.open(credentials(url), settings=QUICK) as vco:
        with pytest.raises(e.Unreachable, match="ConnectError"):
            await vco.gpus.profiles("be-1")
        with pytest.raises(e.Unreachable) as failed:
            await vco.gpus.reserve("be-1", gpu_id="a100", name="n")
        assert failed.value.nothing_happened


async def test_every_call_has_its_own_connection() -> None:
    """No call can be hit by the end of an idle connection, or by another call's answer."""
    async with cloud(GOOD) as (vco, server):
        for _ in range(3):
            await vco.gpus.profiles("be-1")
        assert (server.requests, server.connections) == (3, 3)


async def test_answer_with_more_than_it_announced() -> None:
    """Bytes after an answer are not taken for the answer to the next call."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    none = b'{"result": []}'
    async with cloud(says(head % len(BODY) + BODY + head % len(none) + none), GOOD) as (vco, _):
        for _ in range(2):
            assert len(await vco.gpus.profiles("be-1")) == 1


async def test_private_certificate_authority() -> None:
    """A portal with a private CA is reached with its bundle, and only with it."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    pem = authority.cert_pem.bytes().decode()
    async with raw_server(GOOD, tls=tls) as server:
        async with VCO.open(credentials(server.url, pem), settings=QUICK) as vco:
            assert len(await vco.gpus.profiles("be-1")) == 1
        async with VCO.open(credentials(server.url), settings=QUICK) as vco:
            with pytest.raises(e.Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await vco.gpus.profiles("be-1")


async def test_plain_text_to_a_tls_port_and_back() -> None:
    """The wrong scheme in apiURL is an error that nothing came of."""
    async with raw_server(GOOD) as server:
        url = server.url.replace("http://", "https://")
        async with VCO.open(credentials(url), settings=QUICK) as vco:
            with pytest.raises(e.Unreachable):
                await vco.gpus.reserve("be-1", gpu_id="a100", name="n")
