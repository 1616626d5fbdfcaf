"""The credentials of one VCO customer, read from the data of a Secret."""

import re
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

API_PATH = "/api/1"
_CUSTOMER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KEYS = (
    "the Secret needs apiURL, customerID, and either jwt (with iamURL if it is to be renewed)"
    " or clientID, clientSecret and iamURL; caBundle (PEM) is optional"
)


class BadCredentials(ValueError):
    """The Secret's data cannot be used; the message says what is wrong and what is possible."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Where a VCO is, who we are there, and how a token is had. Secrets stay out of the repr."""

    api_url: str
    """Base of the API, with its version: `https://portal.example/api/1`."""
    customer_id: str
    jwt: str = ""
    client_id: str = ""
    client_secret: str = ""
    iam_url: str = ""
    ca_bundle: str = ""

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Credentials":
        """Read the decoded data of a Secret. Raises BadCredentials."""
        text = {key: _text(data, key) for key in ("apiURL", "customerID", "jwt", "clientID")}
        text |= {key: _text(data, key) for key in ("clientSecret", "iamURL", "caBundle")}
        _check_keys(text)
        _check_values(text)
        return cls(
            api_url=_api_url(text["apiURL"]),
            customer_id=text["customerID"],
            jwt=text["jwt"],
            client_id=text["clientID"],
            client_secret=text["clientSecret"],
            iam_url=_base("iamURL", text["iamURL"]) if text["iamURL"] else "",
            ca_bundle=text["caBundle"],
        )

    @property
    def account(self) -> tuple[str, str, str]:
        """What a client is bound to: when this changes, another client is needed."""
        return self.api_url, self.customer_id, self.ca_bundle

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must never be shown."""
        return tuple(text for text in (self.jwt, self.client_secret) if text)

    def __repr__(self) -> str:
        way = "jwt" if self.jwt else "clientID"
        return f"Credentials(api_url={self.api_url!r}, customer_id={self.customer_id!r}, by={way})"

    __str__ = __repr__


def _text(data: Mapping[str, bytes], key: str) -> str:
    try:
        return data.get(key, b"").decode().strip()
    except UnicodeDecodeError:
        raise BadCredentials(f"{key} is not text; {_KEYS}") from None


def _check_keys(text: Mapping[str, str]) -> None:
    missing = [key for key in ("apiURL", "customerID") if not text[key]]
    if text["jwt"] and (text["clientID"] or text["clientSecret"]):
        raise BadCredentials(
            f"both jwt and clientID are set, so it is unclear which counts; {_KEYS}"
        )
    if not text["jwt"]:
        asked = ("clientID", "clientSecret", "iamURL")
        given = any(text[key] for key in ("clientID", "clientSecret"))
        missing += [key for key in asked if not text[key]] if given else ["jwt or clientID"]
    if missing:
        raise BadCredentials(f"{' and '.join(missing)} missing or empty; {_KEYS}")


def _check_values(text: Mapping[str, str]) -> None:
    if not _CUSTOMER.fullmatch(text["customerID"]):
        raise BadCredentials(
            f"customerID {text['customerID']!r} is not a customer id such as acme_1"
        )
    for key in ("jwt", "clientID", "clientSecret"):
        if any(not "!" <= c <= "~" for c in text[key]):
            raise BadCredentials(
                f"{key} holds blanks or characters that cannot be sent; copy it anew"
            )
    if text["caBundle"]:
        _check_bundle(text["caBundle"])


def _check_bundle(pem: str) -> None:
    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        raise BadCredentials("caBundle holds no certificates in PEM form") from None


def _api_url(url: str) -> str:
    base = _base("apiURL", url)
    return base if base.endswith(API_PATH) else base + API_PATH


def _base(key: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    # A URL with a password in it is refused without repeating it.
    if not good or parts.username is not None or parts.query or parts.fragment:
        raise BadCredentials(
            f"{key} must be a plain URL such as https://portal.example, without user, query or #"
        )
    return url.rstrip("/")
