"""A TCP proxy between a client and a server that can cut and freeze what goes through it."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65536


class _Pipe:
    """One connection through the proxy."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near = near
        self.far = far
        self.moving = asyncio.Event()
        self.moving.set()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes one way, as long as the pipe is not frozen; pass an end on."""
        with suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                await self.moving.wait()
                writer.write(data)
                await writer.drain()
            await self.moving.wait()
            writer.close()

    def abort(self) -> None:
        """Reset both sides."""
        for writer in (self.near, self.far):
            writer.transport.abort()


class Proxy:
    """Forwards a local port to a server until told otherwise. An async context manager.

    - ``cut``: every connection is reset and new ones are refused, until ``mend``;
    - ``freeze``: what is connected now stays open and carries nothing any more, as when a
      middlebox forgot the connection; new connections work.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.accepted = 0

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in [*self._pipes]:
            pipe.moving.set()
            pipe.abort()
        await asyncio.sleep(0)

    async def mend(self) -> None:
        """Accept connections, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    def freeze(self) -> int:
        """Freeze the present connections for good; return how many."""
        for pipe in self._pipes:
            pipe.moving.clear()
        return len(self._pipes)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        finally:
            self._tasks.discard(task)
        pipe = _Pipe(writer, far_writer)
        self._pipes.add(pipe)
        self._tasks.add(task)
        try:
            await asyncio.gather(pipe.pump(reader, far_writer), pipe.pump(far_reader, writer))
        finally:
            pipe.abort()
            self._pipes.discard(pipe)
            self._tasks.discard(task)
