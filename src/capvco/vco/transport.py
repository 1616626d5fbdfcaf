"""Sends one request, once, and tells what became of it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Self
from urllib.parse import urlsplit

import httpx2
import msgspec

from capvco.vco.answers import Answer, retry_after, shorten
from capvco.vco.call import Call, Pace, Stream
from capvco.vco.errors import UnknownOutcome, Unreachable, VCOError
from capvco.vco.metrics import RequestMetrics
from capvco.vco.settings import ClientSettings

# With these, no byte of the request has left: there was no connection, or none was free.
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


class Transport:
    """Sends requests. `exchange` returns any complete answer, whatever its status.

    Every request has its own connection. On a kept one, bytes that a confused proxy sent after an
    answer were taken for the answer to the next request (observed with the HTTP library in use):
    an empty list in the wrong place would count as proof that nothing is left. And a mutation sent
    just when an idle connection is closed has an unknown outcome for no good reason. A handshake a
    call is cheap beside both: calls take from tens of milliseconds to minutes.
    """

    def __init__(
        self,
        settings: ClientSettings,
        metrics: RequestMetrics | None = None,
        ca_bundle: str = "",
        base: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._metrics = metrics
        self._connect_seconds = settings.connect_seconds
        self._seconds = {
            Pace.READ: settings.read_seconds,
            Pace.WRITE: settings.write_seconds,
            Pace.CREATE: settings.create_seconds,
            Pace.UPLOAD: settings.upload_seconds,
        }
        # A line that is slow may take its time; one that takes nothing any more is dead.
        self._stalled = httpx2.Timeout(
            settings.create_seconds, connect=settings.connect_seconds, write=settings.write_seconds
        )
        self._http = httpx2.AsyncClient(
            headers={
                "User-Agent": settings.user_agent,
                "Accept": "application/json, */*;q=0.1",
                "Connection": "close",
            },
            verify=_trust(ca_bundle),
            limits=httpx2.Limits(
                # The token's issuer needs connections besides the calls in flight.
                max_connections=settings.concurrency + 2,
                max_keepalive_connections=0,
            ),
            transport=base,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._http.aclose()

    async def exchange(self, call: Call, url: str, headers: Mapping[str, str]) -> Answer:
        """Send a call once. Raises Unreachable, or UnknownOutcome for a mutation that was sent."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        code = "cancelled"
        try:
            answer = await self._answer(call, url, headers)
            code = str(answer.status)
        except TimeoutError:
            code = "timeout"
            raise self._lost(call, f"no answer in {clock() - begun:.0f} s") from None
        except _UNSENT as error:
            code = "unsent"
            raise _failed(Unreachable, call, error) from error
        except httpx2.HTTPError as error:
            code = "timeout" if isinstance(error, httpx2.TimeoutException) else "lost"
            raise self._lost(call, _text(call, error)) from error
        finally:
            if self._metrics is not None:
                self._metrics.observe(call.method, call.route, code, clock() - begun)
        return answer

    async def _answer(self, call: Call, url: str, headers: Mapping[str, str]) -> Answer:
        seconds = self._seconds[call.pace]
        content, content_type = _content(call)
        # The pool's own time-outs count from byte to byte; a trickle must end, too.
        async with asyncio.timeout(self._connect_seconds + seconds):
            response = await self._http.request(
                call.method,
                url,
                params=call.url_query() or None,
                content=content,
                headers={**headers, **content_type},
                timeout=self._timeout(call.pace),
            )
        return Answer(
            status=response.status_code,
            body=response.content,
            retry_after=retry_after(response.headers.get("Retry-After"), datetime.now(UTC)),
            redirect=_origin(response.headers["Location"])
            if response.has_redirect_location
            else "",
            etag=response.headers.get("ETag", ""),
        )

    def _timeout(self, pace: Pace) -> httpx2.Timeout:
        if pace is Pace.UPLOAD:
            return self._stalled
        return httpx2.Timeout(self._seconds[pace], connect=self._connect_seconds)

    @staticmethod
    def _lost(call: Call, words: str) -> VCOError:
        kind = Unreachable if call.safe else UnknownOutcome
        return kind(call.method, call.route, None, words)


def _failed(kind: type[VCOError], call: Call, error: Exception) -> VCOError:
    return kind(call.method, call.route, None, _text(call, error))


def _text(call: Call, error: Exception) -> str:
    return shorten(f"{type(error).__name__}: {error}", call.hidden)


def _content(call: Call) -> tuple[bytes | AsyncIterator[bytes] | None, dict[str, str]]:
    if isinstance(call.content, Stream):
        headers = {"Content-Type": call.content_type, "Content-Length": str(call.content.length)}
        return call.content.open(), headers
    if call.content is not None:
        return call.content, {"Content-Type": call.content_type}
    if call.body is not None:
        return msgspec.json.encode(call.body), {"Content-Type": "application/json"}
    return None, {}


def _origin(location: str) -> str:
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.hostname}" if parts.hostname else "another path"


def _trust(ca_bundle: str) -> ssl.SSLContext:
    context = httpx2.create_ssl_context()
    if ca_bundle:
        context.load_verify_locations(cadata=ca_bundle)
    return context
