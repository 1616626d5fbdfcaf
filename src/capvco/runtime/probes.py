"""Health, readiness and metrics over HTTP, answered by the event loop itself.

A loop that is stuck does not answer its liveness probe: that is the point of not serving these
from a thread. Only GET and HEAD, one request per connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

import structlog
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, or nothing."""

_LIMIT = 16384  # bytes of a request's head
_PATIENCE = 5.0  # seconds for a request's head, and for its answer


@dataclass(frozen=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    headers: Mapping[str, str]


Routes: TypeAlias = Mapping[str, Callable[[_Request], _Answer]]


class Probes:
    """Serves /healthz and /readyz on one address and /metrics on another, or all on the same.

    An address is ``host:port`` or ``:port``; an empty one or ``0`` means not to serve.
    """

    def __init__(
        self,
        *,
        health: str = ":9440",
        metrics: str = ":8080",
        checks: Mapping[str, Check] | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._registry = registry
        self._checks = dict(checks or {})
        health_routes: Routes = {"/healthz": self._healthz, "/readyz": self._readyz}
        metrics_routes: Routes = {"/metrics": self._metrics}
        self._sites: dict[str, Routes]
        if health == metrics:
            self._sites = {health: {**health_routes, **metrics_routes}}
        else:
            self._sites = {health: health_routes, metrics: metrics_routes}
        self.ports: dict[str, int] = {}

    def add_check(self, name: str, check: Check) -> None:
        """Make readiness depend on one more check."""
        self._checks[name] = check

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Serve until cancelled; raises OSError if an address cannot be had.

        ``ports`` then has the port of each address, which tells what became of port 0.
        """
        async with AsyncExitStack() as servers:
            for address, routes in self._sites.items():
                if address in {"", "0"}:
                    continue
                host, _, port = address.rpartition(":")
                server = await asyncio.start_server(
                    _Site(routes).serve, host.strip("[]") or None, int(port), limit=_LIMIT
                )
                await servers.enter_async_context(server)
                self.ports[address] = server.sockets[0].getsockname()[1]
            if started is not None:
                started.set()
            await asyncio.Event().wait()

    def _healthz(self, _: _Request) -> _Answer:
        return _Answer(HTTPStatus.OK, b"ok\n")

    def _readyz(self, _: _Request) -> _Answer:
        found = {name: check() for name, check in self._checks.items()}
        lines = [f"[-] {name}: {why}" if why else f"[+] {name}" for name, why in found.items()]
        status = HTTPStatus.SERVICE_UNAVAILABLE if any(found.values()) else HTTPStatus.OK
        return _Answer(status, "\n".join([*lines, status.phrase, ""]).encode())

    def _metrics(self, request: _Request) -> _Answer:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return _Answer(HTTPStatus.OK, encode(self._registry), content_type)


@dataclass(frozen=True)
class _Site:
    """The routes of one address."""

    routes: Routes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; never raises for what a client does."""
        with suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_PATIENCE):
                try:
                    request = _parse(await reader.readuntil(b"\r\n\r\n"))
                except (ValueError, asyncio.LimitOverrunError):
                    request = None
                writer.write(self._respond(request))
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def _respond(self, request: _Request | None) -> bytes:
        answer = self._answer(request)
        head = (
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            "Connection: close\r\n\r\n"
        ).encode()
        return head if request and request.method == "HEAD" else head + answer.body

    def _answer(self, request: _Request | None) -> _Answer:
        if request is None:
            return _Answer(HTTPStatus.BAD_REQUEST, b"not an HTTP request\n")
        route = self.routes.get(request.path)
        if route is None:
            served = ", ".join(self.routes)
            return _Answer(HTTPStatus.NOT_FOUND, f"served here: {served}\n".encode())
        if request.method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        try:
            return route(request)
        except Exception:
            log.exception("probe failed", path=request.path)
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed, see the log\n")


def _parse(head: bytes) -> _Request:
    """Parse the head of a request; raises ValueError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"not HTTP/1: {version}")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Request(method, target.partition("?")[0], headers)
