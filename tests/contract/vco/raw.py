"""A server that answers with any bytes at all, over real sockets, on a free port."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """Runs one script per request, the last one for ever; counts requests and connections."""

    scripts: list[Script]
    scheme: str = "http"
    port: int = 0
    requests: int = 0
    connections: int = 0
    _busy: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        self.connections += 1
        try:
            while await _request(reader):
                self.requests += 1
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                await script(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            self._busy.discard(task)
            writer.close()

    async def stop(self) -> None:
        for task in tuple(self._busy):
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)


@asynccontextmanager
async def raw_server(
    *scripts: Script, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    server = RawServer(list(scripts), "https" if tls else "http")
    listener = await asyncio.start_server(server.serve, "localhost", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()


async def _request(reader: asyncio.StreamReader) -> bool:
    """Read one request to its end; False when there is none."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))
    return bool(head)


def says(data: bytes) -> Script:
    """Answer with these bytes and keep the connection."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return script


def answers(status: int, body: bytes, *headers: str) -> Script:
    """Answer properly."""
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return says("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def says_and_closes(data: bytes) -> Script:
    """Answer with these bytes, and hang up."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        raise ConnectionResetError

    return script


async def resets(writer: asyncio.StreamWriter) -> None:
    """Drop the connection as a crashing machine does."""
    writer.transport.abort()
    raise ConnectionResetError


async def hangs(_: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def trickles(writer: asyncio.StreamWriter) -> None:
    """Answer for ever, byte by byte, always before anybody's patience for one byte ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)
