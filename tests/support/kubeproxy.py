"""A reverse proxy before a real API server: counts writes, and lets chosen answers get lost.

The manager under test speaks plain HTTP to it, with its own token; it speaks TLS to the API
server. Watches stream through.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

WRITES = ("POST", "PUT", "PATCH", "DELETE")
NOT_COUNTED = ("/leases", "/events")
_HOP = {"host", "content-length", "transfer-encoding", "connection", "content-encoding"}


@dataclass
class KubeProxy:
    """Where the proxy is, and what passes through it."""

    server: str
    ca_pem: str
    url: str = ""
    writes: list[str] = field(default_factory=list)
    """Method and path of each counted write, in order."""
    nth: int = 0
    """The write, counted from 1, whose answer never comes although it was carried out; 0: none."""
    struck: bool = False

    @asynccontextmanager
    async def _client(self, app: Starlette) -> AsyncIterator[None]:
        context = ssl.create_default_context(cadata=self.ca_pem)
        async with httpx2.AsyncClient(
            base_url=self.server, verify=context, timeout=None, trust_env=False
        ) as client:
            app.state.client = client
            yield

    async def _pass(self, request: Request) -> Response:
        number = self._number(request)
        upstream = request.app.state.client.build_request(
            request.method,
            httpx2.URL(request.url.path, query=request.url.query.encode()),
            headers=[(k, v) for k, v in request.headers.items() if k not in _HOP],
            content=await request.body(),
        )
        answer = await request.app.state.client.send(upstream, stream=True)
        if number and number == self.nth:
            await answer.aclose()
            self.struck = True
            await asyncio.Event().wait()
        headers = {k: v for k, v in answer.headers.items() if k not in _HOP}
        return StreamingResponse(_body(answer), answer.status_code, headers)

    def _number(self, request: Request) -> int:
        """Count a write; 0 for what does not count."""
        path = request.url.path
        if request.method not in WRITES or any(part in path for part in NOT_COUNTED):
            return 0
        self.writes.append(f"{request.method} {path}")
        return len(self.writes)

    def app(self) -> Starlette:
        """Return the proxy as an application."""
        route = Route("/{path:path}", self._pass, methods=["GET", *WRITES])
        return Starlette(routes=[route], lifespan=self._client)


async def _body(answer: httpx2.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()


@contextmanager
def kube_proxy(server: str, ca_pem: str) -> Iterator[KubeProxy]:
    """Run a proxy before an API server."""
    proxy = KubeProxy(server, ca_pem)
    config = uvicorn.Config(
        proxy.app(), host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=0
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.01)
    proxy.url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        running.should_exit = running.force_exit = True
        thread.join(10)
