"""JSON Web Tokens as the platform's IAM issues them (here signed with HS256)."""

import base64
import binascii
import hashlib
import hmac
import json

import msgspec


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a token says."""

    username: str
    azp: str
    """The client the token was issued to."""
    exp: float
    iat: float
    iss: str = "vcosim"
    aud: tuple[str, ...] = ("vco",)
    scope: tuple[str, ...] = ()
    refresh_token: str | None = None


class BadTokenError(ValueError):
    """Not a token of this IAM."""


def minted(secret: bytes, claims: Claims) -> str:
    """Return a signed token."""
    header = _encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    payload = _encoded(msgspec.json.encode(_whole(claims)))
    return f"{header}.{payload}.{_signature(secret, f'{header}.{payload}')}"


def _whole(claims: Claims) -> dict[str, object]:
    """Return the claims as they are written: whole seconds, nothing that is not there."""
    values = {
        name: value for name, value in msgspec.structs.asdict(claims).items() if value is not None
    }
    return {**values, "exp": int(claims.exp), "iat": int(claims.iat)}


def read(secret: bytes, token: str) -> Claims:
    """Return the claims of a token whose signature is right, expired or not.

    Raises BadTokenError.
    """
    signed, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(secret, signed).encode()):
        raise BadTokenError("the signature is not right")
    try:
        payload = signed.partition(".")[2]
        text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(text, type=Claims)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise BadTokenError(str(error)) from error


def _signature(secret: bytes, text: str) -> str:
    return _encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
