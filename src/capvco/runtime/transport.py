"""HTTP to one apiserver: credentials, TLS, connection pools, error mapping, request metrics.

Two clients, so that long watches can never take the connections that writes need.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2
from lightkube import ConfigError
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from prometheus_client import CollectorRegistry

from capvco.runtime.errors import Unreachable, error_of
from capvco.runtime.metrics import Metrics

_REQUEST_TIMEOUT = httpx2.Timeout(30, connect=10)


class Transport:
    """Sends requests to one apiserver; raises the errors of ``capvco.runtime.errors`` alone."""

    def __init__(
        self, config: SingleConfig, *, user_agent: str, registry: CollectorRegistry
    ) -> None:
        server = config.cluster.server
        # The identity encoding saves both sides the CPU of gzip on multi-megabyte lists.
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        trust_env = not _is_loopback(server)
        self._requests = AsyncClient(
            config, ConnectionParams(timeout=_REQUEST_TIMEOUT, trust_env=trust_env)
        )
        self._watches = AsyncClient(config, ConnectionParams(trust_env=trust_env))
        for client in (self._requests, self._watches):
            client.headers.update(headers)
        self._host = urlsplit(server).netloc
        self._counter = Metrics.of(registry).requests

    async def close(self) -> None:
        """Close every connection."""
        await self._requests.aclose()
        await self._watches.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send one request and return the body of a success."""
        where = f"{method} {path}"
        headers = {"Content-Type": content_type} if content is not None else {}
        request = self._requests.build_request(
            method, path, params=params, content=content, headers=headers
        )
        async with self._answer(self._requests, request, where) as response:
            return await response.aread()

    async def lines(
        self, path: str, *, params: Mapping[str, str], silence: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the apiserver ends it.

        Raises Unreachable when nothing at all arrives for ``silence`` seconds: a half-open
        connection would otherwise stay silent for ever.
        """
        timeout = httpx2.Timeout(silence, connect=10, pool=10)
        request = self._watches.build_request("GET", path, params=params, timeout=timeout)
        async with (
            self._answer(self._watches, request, f"watch {path}") as response,
            aclosing(response.aiter_raw()) as chunks,
        ):
            pending: list[bytes] = []
            async for chunk in chunks:
                # Joining only at a line's end keeps a large object linear in its size.
                head, newline, rest = chunk.partition(b"\n")
                pending.append(head)
                if not newline:
                    continue
                yield b"".join(pending)
                *whole, last = rest.split(b"\n")
                for line in whole:
                    yield line
                pending = [last]

    @asynccontextmanager
    async def _answer(
        self, client: httpx2.AsyncClient, request: httpx2.Request, where: str
    ) -> AsyncIterator[httpx2.Response]:
        """Hand out a successful answer, closed afterwards; everything else is an error."""
        code = "<error>"
        try:
            try:
                response = await client.send(request, stream=True)
                code = str(response.status_code)
            finally:
                self._counter.labels(code, request.method, self._host).inc()
            async with aclosing(response):
                if not response.is_success:
                    raise error_of(
                        response.status_code,
                        await response.aread(),
                        where=where,
                        retry_after=_retry_after(response),
                    )
                yield response
        except (httpx2.TransportError, httpx2.DecodingError, ConfigError) as error:
            said = str(error) or type(error).__name__
            raise Unreachable(f"{where}: no answer from {self._host}: {said}") from error


def _is_loopback(server: str) -> bool:
    """Say whether a server is this very machine: a proxy from the environment cannot reach it."""
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the pause in seconds that the apiserver asks for, if it does."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else None
