"""Speaks to one VCO as one customer: token, pace, retries of reads, and answers as values."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Self, TypeVar

import msgspec
import stamina

from capvco.vco.answers import Answer, failure
from capvco.vco.call import Call, Pace
from capvco.vco.credentials import Credentials
from capvco.vco.decode import decode, no_web_page
from capvco.vco.errors import Malformed, Throttled, UnknownOutcome, Unreachable, VCOError
from capvco.vco.iam import Issuer
from capvco.vco.limiter import Limiter, Paused
from capvco.vco.metrics import RequestMetrics
from capvco.vco.settings import ClientSettings
from capvco.vco.token import Reload, TokenSource
from capvco.vco.transport import Transport

T = TypeVar("T")


class Ack(msgspec.Struct, frozen=True):
    """The usual answer to a mutation."""

    success: bool


class Client:
    """One per credential. Reads are tried a few times; a mutation is sent once.

    (The one exception: a mutation refused with 401 is sent again with a new token, since a 401
    means that nothing happened.)
    """

    def __init__(
        self,
        tokens: TokenSource,
        transport: Transport,
        settings: ClientSettings,
    ) -> None:
        self._tokens = tokens
        self._transport = transport
        self._settings = settings
        self._limiter = Limiter(settings.rate, settings.burst, settings.pause_patience)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._create_slots = asyncio.Semaphore(settings.create_concurrency)
        _keep_urls_out_of_logs()

    @classmethod
    def open(
        cls,
        credentials: Credentials,
        *,
        reload: Reload | None = None,
        settings: ClientSettings | None = None,
        metrics: RequestMetrics | None = None,
    ) -> Self:
        """Make a client with its own connections; sends nothing yet. Close it after use."""
        settings = settings or ClientSettings()
        transport = Transport(settings, metrics, credentials.ca_bundle)
        return cls(TokenSource(credentials, Issuer(transport), reload), transport, settings)

    @property
    def credentials(self) -> Credentials:
        """The credentials in use."""
        return self._tokens.credentials

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._transport.close()

    async def send(self, call: Call, answer_type: type[T]) -> T:
        """Send a call and return its answer, decoded. Raises VCOError."""
        return await self._tried(call, lambda call, answer: decode(call, answer, answer_type))

    async def ack(self, call: Call) -> None:
        """Send a mutation that is answered by `{"success": true}`. Raises VCOError."""
        if not (await self.send(call, Ack)).success:
            raise UnknownOutcome(call.method, call.route, 200, "the answer says success: false")

    async def do(self, call: Call) -> Answer:
        """Send a call whose answer is not described; anything but a web page will do."""
        return await self._tried(call, no_web_page)

    async def _tried(self, call: Call, read: Callable[[Call, Answer], T]) -> T:
        if not call.safe:
            return read(self._guarded(call), await self._once(call))
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.read_tries_seconds

        def passing(error: Exception) -> bool:
            return isinstance(error, Unreachable | Malformed) and clock() < deadline

        attempts = stamina.retry_context(
            on=passing,
            attempts=self._settings.read_tries,
            timeout=None,
            wait_initial=0.2,
            wait_max=2.0,
            wait_jitter=0.2,
        )
        async for attempt in attempts:
            with attempt:
                return read(self._guarded(call), await self._once(call))
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, call: Call) -> Answer:
        async with self._slot(call):
            await self._admitted(call)
            token = await self._tokens.token()
            answer = await self._exchange(call, token)
            if answer.status == 401:  # noqa: PLR2004 - the status is its own best name
                token = await self._tokens.renew(token)
                await self._admitted(call)
                answer = await self._exchange(call, token)
        if answer.ok:
            return answer
        raise self._failure(call, answer)

    @asynccontextmanager
    async def _slot(self, call: Call) -> AsyncIterator[None]:
        if call.pace not in {Pace.CREATE, Pace.UPLOAD}:
            async with self._slots:
                yield
            return
        # Creates block for minutes; they must not take every slot from the reads.
        async with self._create_slots, self._slots:
            yield

    async def _admitted(self, call: Call) -> None:
        try:
            await self._limiter.acquire()
        except Paused as pause:
            words = "not sent: the platform asked for a pause"
            raise Throttled(
                call.method, call.route, None, words, retry_after=round(pause.seconds, 1)
            ) from None

    async def _exchange(self, call: Call, token: str) -> Answer:
        credentials = self._tokens.credentials
        url = credentials.api_url + call.url_path(credentials.customer_id)
        return await self._transport.exchange(call, url, {"Authorization": f"Bearer {token}"})

    def _failure(self, call: Call, answer: Answer) -> VCOError:
        error = failure(self._guarded(call), answer)
        if isinstance(error, Throttled) and error.retry_after is not None:
            self._limiter.pause(error.retry_after)
        return error

    def _guarded(self, call: Call) -> Call:
        """Keep the tokens out of whatever an error may quote."""
        return replace(call, hidden=(*call.hidden, *self._tokens.secrets))


def _keep_urls_out_of_logs() -> None:
    # The transport logs whole URLs at INFO, and a query can hold user data.
    transport_log = logging.getLogger("httpx2")
    if transport_log.level == logging.NOTSET:
        transport_log.setLevel(logging.WARNING)
