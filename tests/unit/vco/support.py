"""A client over a platform that a test scripts, without a network."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import httpx2
import msgspec

from capvco.vco.client import Client
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.iam import Issuer
from capvco.vco.metrics import RequestMetrics
from capvco.vco.settings import ClientSettings
from capvco.vco.token import Reload, TokenSource
from capvco.vco.transport import Transport

Reply = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]
Handler = Callable[[httpx2.Request], Coroutine[None, None, httpx2.Response]]
NOW = 1_700_000_000.0


def a_jwt(who: str = "robot", expires: float | None = NOW + 86400) -> str:
    """Make a token that looks real: base64 of claims, and a signature that nobody checks."""
    claims = {"username": who} | ({} if expires is None else {"exp": expires})
    parts = (b'{"alg":"ES384"}', msgspec.json.encode(claims), b"signature")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def some_credentials(**changes: str) -> Credentials:
    values = {"api_url": "https://portal.test/api/1", "customer_id": "acme_1", "jwt": a_jwt()}
    return Credentials(**(values | changes))


def client_id_credentials(**changes: str) -> Credentials:
    values = {"client_id": "robot", "client_secret": "s3cr3t-of-robot"}
    return some_credentials(**({"jwt": "", "iam_url": "https://iam.test"} | values | changes))


@dataclass
class Platform:
    """Answers requests from a script, the last reply for ever, and keeps what it was asked."""

    replies: list[Reply]
    seen: list[httpx2.Request] = field(default_factory=list)

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        await asyncio.sleep(0)  # others get their turn meanwhile, as they do over a network
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        if callable(reply):
            return reply(request)
        # A response object can be sent once; the last one is sent again and again.
        return httpx2.Response(reply.status_code, headers=reply.headers, content=reply.content)

    @property
    def tokens(self) -> list[str]:
        """The tokens that came with the requests."""
        return [r.headers.get("Authorization", "").removeprefix("Bearer ") for r in self.seen]


def a_platform(*replies: Reply) -> Platform:
    return Platform(list(replies))


def a_client(
    handler: Handler,
    *,
    credentials: Credentials | None = None,
    reload: Reload | None = None,
    settings: ClientSettings | None = None,
    metrics: RequestMetrics | None = None,
    now: Callable[[], float] = lambda: NOW,
) -> Client:
    settings = settings or ClientSettings()
    transport = Transport(settings, metrics, base=httpx2.MockTransport(handler))
    tokens = TokenSource(credentials or some_credentials(), Issuer(transport), reload, now)
    return Client(tokens, transport, settings)


def a_vco(*replies: Reply) -> tuple[VCO, Platform]:
    platform = a_platform(*replies)
    return VCO(a_client(platform)), platform


def json(value: object, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(
        status, json=value, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def html(status: int, title: str = "502 Bad Gateway") -> httpx2.Response:
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>nginx</body></html>"
    return httpx2.Response(status, html=page)
