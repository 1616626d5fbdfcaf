"""The current token of one credential: renewed before it ends, and when it is refused."""

import asyncio
import base64
import binascii
import time
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from capvco.vco.credentials import Credentials
from capvco.vco.errors import CredentialsRefused, Throttled, Unauthorized, VCOError
from capvco.vco.iam import Issuer

log = structlog.get_logger(__name__)

MARGIN = 90.0
"""Seconds before its end at which a token is renewed (half its life, if that is shorter)."""
REFUSED_HOLD_OFF = 10.0
"""Seconds between two questions to an issuer that refused."""
FAILED_HOLD_OFF = 1.0
"""The same for one that did not answer properly, while the old token is valid."""

Reload = Callable[[], Awaitable[Credentials]]


class Token(msgspec.Struct, frozen=True):
    """A token and its times, in epoch seconds; None where it does not tell."""

    text: str
    expires: float | None = None
    renew_at: float | None = None

    def __repr__(self) -> str:
        return f"Token(expires={self.expires})"

    def due(self, now: float) -> bool:
        """Whether it is time to renew it."""
        return self.renew_at is not None and now >= self.renew_at

    def over(self, now: float) -> bool:
        """Whether it is no longer valid."""
        return self.expires is not None and now >= self.expires


def given(text: str) -> Token:
    """Take a token that somebody else got: who knows when; renewed MARGIN before its end."""
    expires = _expiry(text)
    return Token(text, expires, None if expires is None else expires - MARGIN)


def issued(text: str, now: float) -> Token:
    """Take a token that was issued just now; a short one is renewed after half its life."""
    token = given(text)
    if token.expires is None:
        return token
    return Token(text, token.expires, token.expires - min(MARGIN, max(token.expires - now, 0) / 2))


def _expiry(text: str) -> float | None:
    try:
        payload = text.split(".")[1]
        claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp
    except (IndexError, binascii.Error, ValueError):  # msgspec's errors are ValueErrors
        return None


class _Claims(msgspec.Struct):
    exp: float | None = None


class TokenSource:
    """Hands out the token to send. Many may ask at once; one renewal serves them all.

    `reload` reads the Secret again. Credentials of another portal or customer are refused: they
    need another client.
    """

    def __init__(
        self,
        credentials: Credentials,
        issuer: Issuer,
        reload: Reload | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._reload = reload
        self._now = now
        self._lock = asyncio.Lock()
        self._hold_until = 0.0
        self._held: VCOError | None = None
        self._adopt(credentials)

    @property
    def credentials(self) -> Credentials:
        """The credentials in use."""
        return self._credentials

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that must not be shown."""
        current = () if self._current is None else (self._current.text,)
        return (*self._credentials.secrets, *current)

    async def token(self) -> str:
        """Return a token that is valid for a while. Raises Unauthorized, or that none was had."""
        if (text := self._usable()) is not None:
            return text
        async with self._lock:
            if (text := self._usable()) is not None:
                return text
            return await self._ahead_of_time()

    async def renew(self, refused: str) -> str:
        """Return another token than the refused one, from the Secret or else from the issuer.

        Raises Unauthorized if there is none, or that it could not be had.
        """
        async with self._lock:
            if self._current is None or self._current.text == refused:
                await self._reread()
            if self._current is None or self._current.text == refused:
                await self._issue()
            return self._text()

    def _usable(self) -> str | None:
        current, now = self._current, self._now()
        if current is None or current.over(now):
            return None
        # While the issuer is left alone, the old token does as long as it is valid.
        return None if current.due(now) and now >= self._hold_until else current.text

    async def _ahead_of_time(self) -> str:
        try:
            known = self._current is not None or self._held is not None
            if not (known and await self._reread() and self._usable() is not None):
                await self._issue()
        except Exception as error:  # whatever fails, also in reading the Secret, is no reason yet
            if self._current is None or self._current.over(self._now()):
                raise
            self._hold_until = max(self._hold_until, self._now() + FAILED_HOLD_OFF)
            log.warning("token not renewed, the old one is still valid", error=str(error))
        return self._text()

    def _text(self) -> str:
        if self._current is None:
            raise AssertionError("a token was had or an error raised before this is asked")
        return self._current.text

    async def _reread(self) -> bool:
        """Read the Secret again and say whether it changed."""
        if self._reload is None:
            return False
        fresh = await self._reload()
        if fresh == self._credentials:
            return False
        if fresh.account != self._credentials.account:
            raise _unauthorized("the Secret now names another portal, customer or CA")
        self._adopt(fresh)
        return True

    def _adopt(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._current = given(credentials.jwt) if credentials.jwt else None
        self._hold_until, self._held = 0.0, None

    async def _issue(self) -> None:
        # A refusal stays one for a while; one that failed may answer the next time.
        refused = isinstance(self._held, CredentialsRefused | Throttled)
        if self._held is not None and refused and self._now() < self._hold_until:
            raise self._held.again()
        try:
            text = await self._issuer.issue(self._checked(), self._current_text())
        except VCOError as error:
            self._hold_until, self._held = self._now() + _hold_off(error), error
            raise
        self._hold_until, self._held = 0.0, None
        self._current = issued(text, self._now())

    def _current_text(self) -> str:
        return "" if self._current is None else self._current.text

    def _checked(self) -> Credentials:
        if not self._credentials.iam_url:
            raise _unauthorized(
                "the token has ended or is refused, and without iamURL it cannot be renewed"
            )
        return self._credentials


def _hold_off(error: VCOError) -> float:
    if isinstance(error, CredentialsRefused):
        return REFUSED_HOLD_OFF
    return error.retry_after or FAILED_HOLD_OFF


def _unauthorized(words: str) -> Unauthorized:
    return Unauthorized("GET", "(token)", None, words)
