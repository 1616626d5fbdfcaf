"""Tokens: renewed in time, once for all, and when refused; never shown."""

import asyncio
import traceback
from collections.abc import Callable

import httpx2
import pytest
from structlog.testing import capture_logs

from capvco.vco import errors as e
from capvco.vco.credentials import Credentials
from capvco.vco.iam import Issuer
from capvco.vco.settings import ClientSettings
from capvco.vco.token import MARGIN, REFUSED_HOLD_OFF, Token, TokenSource, given, issued
from capvco.vco.transport import Transport
from tests.unit.vco.support import (
    NOW,
    Platform,
    a_jwt,
    a_platform,
    client_id_credentials,
    html,
    json,
    some_credentials,
)


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        return self.time


class Secret:
    """The Secret that a test changes while it is in use."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials: Credentials | Exception = credentials
        self.reads = 0

    async def __call__(self) -> Credentials:
        self.reads += 1
        if isinstance(self.credentials, Exception):
            raise self.credentials
        return self.credentials


def a_source(
    credentials: Credentials,
    issuer: Platform | None = None,
    secret: Secret | None = None,
    clock: Callable[[], float] = lambda: NOW,
) -> TokenSource:
    transport = Transport(
        ClientSettings(), base=httpx2.MockTransport(issuer or a_platform(html(500)))
    )
    return TokenSource(credentials, Issuer(transport), secret, clock)


def text(body: str, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, text=body)


NEW = a_jwt("renewed")


async def test_ready_token_is_used_as_it_is() -> None:
    """A token with a long life needs no issuer."""
    assert await a_source(some_credentials()).token() == a_jwt()


@pytest.mark.parametrize("jwt", [a_jwt(expires=None), "opaque", "a.b.c", "a.e30.c", "x.bnVsbA.y"])
async def test_token_that_does_not_tell_its_end(jwt: str) -> None:
    """Without a readable end the platform's 401 is the only sign, and the token is used."""
    assert given(jwt) == Token(jwt)
    assert await a_source(some_credentials(jwt=jwt)).token() == jwt


@pytest.mark.parametrize(
    "body",
    [
        text(NEW),
        text(NEW + "\n"),
        text(f'"{NEW}"'),
        json({"jwt": NEW}),
        json({"token": NEW}),
        json({"access_token": NEW, "token_type": "bearer"}),
    ],
)
async def test_shapes_of_an_issued_token(body: httpx2.Response) -> None:
    """Plain text and the three names in use are all understood."""
    assert await a_source(client_id_credentials(), a_platform(body)).token() == NEW


async def test_client_id_and_secret_go_into_the_body() -> None:
    """Queries end up in the logs of proxies, so the secret is not in the URL."""
    issuer = a_platform(text(NEW))
    await a_source(client_id_credentials(), issuer).token()
    request = issuer.seen[0]
    assert str(request.url) == "https://iam.test/v1/oauth/access_token"
    form = httpx2.QueryParams(request.content.decode())
    assert form["grant_type"] == "client_credentials"
    assert (form["client_id"], form["client_secret"]) == ("robot", "s3cr3t-of-robot")


async def test_ready_token_is_renewed_before_its_end() -> None:
    """At least 60 seconds before its end another one is got for it."""
    assert MARGIN >= 60
    clock, issuer = Clock(), a_platform(text(NEW))
    credentials = some_credentials(jwt=a_jwt(expires=NOW + 3600), iam_url="https://iam.test")
    source = a_source(credentials, issuer, clock=clock)
    clock.time = NOW + 3600 - MARGIN - 1
    assert await source.token() == credentials.jwt
    clock.time += 1
    assert await source.token() == NEW
    assert str(issuer.seen[0].url) == "https://iam.test/v1/oauth/jwt/refresh"
    assert issuer.tokens == [credentials.jwt]


async def test_ended_token_can_be_renewed() -> None:
    """The issuer takes an ended token, too."""
    credentials = some_credentials(jwt=a_jwt(expires=NOW - 10), iam_url="https://iam.test")
    assert await a_source(credentials, a_platform(text(NEW))).token() == NEW


async def test_short_lived_tokens_are_not_renewed_at_every_call() -> None:
    """A token that lives for a minute serves for half of it."""
    clock = Clock()
    short = a_jwt(expires=NOW + 60)
    issuer = a_platform(text(short), text(NEW))
    source = a_source(client_id_credentials(), issuer, clock=clock)
    clock.time = NOW + 29
    assert [await source.token(), await source.token()] == [short, short]
    clock.time = NOW + 31 + 29
    assert await source.token() == NEW
    assert issued(short, NOW).renew_at == NOW + 30


async def test_one_renewal_serves_all() -> None:
    """Many callers at once cause one request to the issuer."""
    issuer = a_platform(text(NEW))
    source = a_source(client_id_credentials(), issuer)
    assert set(await asyncio.gather(*(source.token() for _ in range(20)))) == {NEW}
    assert len(issuer.seen) == 1


async def test_renewal_survives_the_one_who_began_it() -> None:
    """If the caller that renews is cancelled, another one does it."""
    arrived, release = asyncio.Event(), asyncio.Event()

    async def slow(_: httpx2.Request) -> httpx2.Response:
        arrived.set()
        await release.wait()
        return text(NEW)

    transport = Transport(ClientSettings(), base=httpx2.MockTransport(slow))
    source = TokenSource(client_id_credentials(), Issuer(transport), None, lambda: NOW)
    first = asyncio.create_task(source.token())
    second = asyncio.create_task(source.token())
    await arrived.wait()
    first.cancel()
    release.set()
    assert await second == NEW
    assert first.cancelled()


async def test_failing_issuer_while_the_token_is_valid() -> None:
    """A token in force is used on, and the issuer is not asked at every call."""
    clock, issuer = Clock(), a_platform(html(502))
    credentials = some_credentials(jwt=a_jwt(expires=NOW + 50), iam_url="https://iam.test")
    source = a_source(credentials, issuer, clock=clock)
    with capture_logs() as logs:
        assert {await source.token() for _ in range(10)} == {credentials.jwt}
    assert len(issuer.seen) == 1
    assert len(logs) == 1
    assert credentials.jwt not in str(logs)
    clock.time = NOW + 50
    with pytest.raises(e.Unreachable):
        await source.token()


async def test_failing_secret_while_the_token_is_valid() -> None:
    """Also when the Secret cannot be read, a token in force is used on."""
    credentials = some_credentials(jwt=a_jwt(expires=NOW + 50))
    secret = Secret(credentials)
    secret.credentials = ConnectionError("no apiserver")
    assert await a_source(credentials, secret=secret).token() == credentials.jwt


async def test_ended_token_without_issuer() -> None:
    """The refusal says what to do."""
    source = a_source(some_credentials(jwt=a_jwt(expires=NOW - 1)))
    with pytest.raises(e.Unauthorized, match="without iamURL it cannot be renewed"):
        await source.token()


async def test_newer_token_in_the_secret_is_found_before_the_old_one_ends() -> None:
    """A ready token is replaced by whoever keeps the Secret; that is enough."""
    old = some_credentials(jwt=a_jwt(expires=NOW + 50))
    secret = Secret(some_credentials(jwt=NEW))
    assert await a_source(old, secret=secret).token() == NEW


async def test_refused_token_is_replaced_from_the_secret_first() -> None:
    """After a 401 the Secret is read again; what is new there needs no issuer."""
    secret = Secret(some_credentials(jwt=NEW))
    issuer = a_platform(text("not.to.be-asked"))
    source = a_source(some_credentials(iam_url="https://iam.test"), issuer, secret)
    assert await source.renew(await source.token()) == NEW
    assert issuer.seen == []


async def test_refused_token_is_renewed_by_the_issuer() -> None:
    """With nothing new in the Secret the issuer is asked."""
    credentials = some_credentials(iam_url="https://iam.test")
    source = a_source(credentials, a_platform(text(NEW)), Secret(credentials))
    assert await source.renew(await source.token()) == NEW


async def test_changed_client_secret_is_used() -> None:
    """After a 401 a rotated client secret is what the issuer is asked with."""
    issuer = a_platform(text(a_jwt("one")), text(NEW))
    secret = Secret(client_id_credentials(client_secret="rotated"))
    source = a_source(client_id_credentials(), issuer, secret)
    assert await source.renew(await source.token()) == NEW
    assert b"client_secret=rotated" in issuer.seen[1].content


async def test_one_refusal_seen_by_many_is_renewed_once() -> None:
    """Eight calls that were refused with the same token share one renewal."""
    issuer = a_platform(text(a_jwt("one")), text(NEW))
    secret = Secret(client_id_credentials())
    source = a_source(client_id_credentials(), issuer, secret)
    old = await source.token()
    assert set(await asyncio.gather(*(source.renew(old) for _ in range(8)))) == {NEW}
    assert (len(issuer.seen), secret.reads) == (2, 1)


async def test_secret_of_another_customer_is_refused() -> None:
    """A client belongs to one portal and customer: another one needs another client."""
    secret = Secret(some_credentials(customer_id="other_2", jwt=NEW))
    source = a_source(some_credentials(), secret=secret)
    with pytest.raises(e.Unauthorized, match="another portal, customer or CA"):
        await source.renew(await source.token())


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (json({"message": "invalid client"}, 401), e.Unauthorized),
        (json({"message": "invalid client"}, 400), e.Unauthorized),
        (json({"message": "no"}, 403), e.Unauthorized),
        (text("the token was not issued with offline_access\n", 400), e.Unauthorized),
        (html(400), e.Unreachable),
        (text("404 page not found", 404), e.Unreachable),
        (html(404), e.Unreachable),
        (html(502), e.Unreachable),
        (json({}, 429, retry_after="30"), e.Throttled),
        (html(200), e.Malformed),
        (text(""), e.Malformed),
        (json({"access_token": None}), e.Malformed),
        (text("two words. and. dots"), e.Malformed),
        (httpx2.ConnectError("no route"), e.Unreachable),
        (httpx2.ReadTimeout("slow"), e.Unreachable),
    ],
)
async def test_issuer_that_gives_no_token(
    reply: httpx2.Response | Exception, kind: type[e.VCOError]
) -> None:
    """Whatever the issuer does, the error says by its kind, and holds no secret."""
    source = a_source(client_id_credentials(), a_platform(reply))
    with pytest.raises(e.VCOError) as failed:
        await source.token()
    assert type(failed.value) is kind
    assert "s3cr3t-of-robot" not in "".join(traceback.format_exception(failed.value))


async def test_refusing_issuer_is_left_alone_for_a_while() -> None:
    """Credentials that are refused do not hammer the issuer; a new Secret is tried at once."""
    clock = Clock()
    issuer = a_platform(json({"message": "unknown client"}, 401), text(NEW))
    secret = Secret(client_id_credentials())
    source = a_source(client_id_credentials(), issuer, secret, clock)
    for _ in range(5):
        with pytest.raises(e.Unauthorized, match="unknown client"):
            await source.token()
    assert len(issuer.seen) == 1
    secret.credentials = client_id_credentials(client_secret="corrected")
    assert await source.token() == NEW

    again = a_source(client_id_credentials(), a_platform(json({}, 401), text(NEW)), clock=clock)
    with pytest.raises(e.Unauthorized):
        await again.token()
    clock.time += REFUSED_HOLD_OFF
    assert await again.token() == NEW


async def test_nothing_shows_a_token() -> None:
    """Neither the source nor the token show what they hold."""
    source = a_source(some_credentials())
    shown = repr(source) + repr(given(a_jwt())) + str(issued(a_jwt(), NOW))
    assert a_jwt() not in shown
    assert source.secrets == (a_jwt(), a_jwt())
