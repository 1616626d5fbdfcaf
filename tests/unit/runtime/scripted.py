"""An apiserver that answers what a test tells it to, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from capvco.runtime.kube import Kube

SILENCE = b"(silence)"
"""A piece of a body after which nothing more comes, and the connection stays open."""


@dataclass(frozen=True)
class Reply:
    """One answer; the pieces of the body are sent one by one."""

    body: Sequence[bytes] = (b"{}",)
    status: int = 200
    headers: tuple[str, ...] = ()
    length: int | None = None


@dataclass
class Script:
    """The answers to come, and the requests that came."""

    replies: list[Reply]
    requests: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head.splitlines()[0].removesuffix(" HTTP/1.1"))
        reply = self.replies.pop(0)
        length = [] if reply.length is None else [f"Content-Length: {reply.length}"]
        lines = [f"HTTP/1.1 {reply.status} X", "Connection: close", *reply.headers, *length]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for piece in reply.body:
            if piece == SILENCE:
                await asyncio.Event().wait()
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


@asynccontextmanager
async def answering(*replies: Reply) -> AsyncIterator[tuple[Kube, Script]]:
    script = Script([*replies])
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    text = json.dumps(config).encode()
    async with (
        server,
        Kube.parse(text, user_agent="test", registry=CollectorRegistry()) as kube,
    ):
        yield kube, script
        assert script.replies == []
