"""Credentials from flags and environment."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from capvco.cli.unusable import Unusable
from capvco.vco.credentials import BadCredentials, Credentials

VARIABLES = {
    "apiURL": "VCO_API_URL",
    "customerID": "VCO_CUSTOMER_ID",
    "jwt": "VCO_JWT",
    "clientID": "VCO_CLIENT_ID",
    "clientSecret": "VCO_CLIENT_SECRET",
    "iamURL": "VCO_IAM_URL",
    "caBundle": "VCO_CA_BUNDLE",
}
_WAY_IN = ("jwt", "clientID", "clientSecret")
_HELP = (
    "set VCO_API_URL, VCO_CUSTOMER_ID, and either VCO_JWT or VCO_CLIENT_ID, VCO_CLIENT_SECRET and"
    " VCO_IAM_URL (or the flags of these names), or give --secret namespace/name"
)


class Given(Struct, frozen=True, kw_only=True):
    """The flags about credentials; empty where not given. Secrets stay out of the repr."""

    api_url: str = ""
    customer_id: str = ""
    jwt: str = ""
    client_id: str = ""
    client_secret: str = ""
    iam_url: str = ""
    ca_bundle: Path | None = None

    def __repr__(self) -> str:
        return f"Given(api_url={self.api_url!r}, customer_id={self.customer_id!r})"

    @property
    def values(self) -> dict[str, str]:
        """The flags that were given, under the keys that a Secret has."""
        found = {
            "apiURL": self.api_url,
            "customerID": self.customer_id,
            "jwt": self.jwt,
            "clientID": self.client_id,
            "clientSecret": self.client_secret,
            "iamURL": self.iam_url,
            "caBundle": str(self.ca_bundle or ""),
        }
        return {key: value for key, value in found.items() if value}

    @property
    def shows_secrets(self) -> bool:
        """Whether a secret is on the command line, where every process of the machine sees it."""
        return bool(self.jwt or self.client_secret)


def credentials(given: Given, environment: Mapping[str, str]) -> Credentials:
    """Join flags and environment, flags first. Raises Unusable with what is missing."""
    flags = given.values
    found = {key: environment.get(name, "") for key, name in VARIABLES.items()}
    if any(key in flags for key in _WAY_IN):
        # One way in by flag replaces another in the environment; halves of two are never mixed.
        found |= dict.fromkeys(_WAY_IN if "jwt" in flags else ("jwt",), "")
    found |= flags
    if missing := [VARIABLES[key] for key in ("apiURL", "customerID") if not found[key]]:
        raise Unusable(f"no {' and no '.join(missing)}: {_HELP}")
    if not found["jwt"] and not found["clientID"]:
        raise Unusable(f"no VCO_JWT and no VCO_CLIENT_ID: {_HELP}")
    found["caBundle"] = _read(found["caBundle"])
    try:
        return Credentials.from_secret({key: value.encode() for key, value in found.items()})
    except BadCredentials as error:
        named = ", ".join(f"{key} is {name}" for key, name in VARIABLES.items())
        raise Unusable(f"{error} (here, {named})") from error


def _read(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"the CA bundle {path} cannot be read: {error}") from error
