"""The issuer of tokens: the two requests by which a token is had."""

from urllib.parse import urlencode

import msgspec

from capvco.vco.answers import Answer, failure, is_html, not_json
from capvco.vco.call import Call, Pace
from capvco.vco.credentials import Credentials
from capvco.vco.errors import CredentialsRefused, Refused, Unauthorized
from capvco.vco.transport import Transport

REFRESH = "/v1/oauth/jwt/refresh"
LOGIN = "/v1/oauth/access_token"
_NO = frozenset({400, 401, 403})


class Issuer:
    """Gets tokens for credentials. Asking twice does no harm."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def issue(self, credentials: Credentials, current: str) -> str:
        """Return a new token: by client id and secret, or for the current one.

        Raises Unauthorized if the issuer refuses, Unreachable, Throttled or Malformed.
        """
        if credentials.client_id:
            call = _login(credentials)
            headers = {}
        else:
            call = Call(method="GET", route=REFRESH, pace=Pace.READ, safe=True, hidden=(current,))
            headers = {"Authorization": f"Bearer {current}"}
        answer = await self._transport.exchange(call, credentials.iam_url + call.route, headers)
        if answer.ok:
            return _token(call, answer)
        error = failure(call, answer)
        # Issuers word their refusals as plain text, unlike the API; a proxy's page is none.
        if isinstance(error, Refused | CredentialsRefused) or (
            answer.status in _NO and not is_html(answer.body)
        ):
            raise Unauthorized(call.method, call.route, answer.status, error.words)
        raise error


def _login(credentials: Credentials) -> Call:
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret,
        "response_type": "id_token",
    }
    return Call(
        method="POST",
        route=LOGIN,
        # In the body and not in the query: queries end up in the logs of proxies.
        content=urlencode(form).encode(),
        content_type="application/x-www-form-urlencoded",
        pace=Pace.READ,
        safe=True,
        hidden=credentials.secrets,
    )


def _token(call: Call, answer: Answer) -> str:
    """Read a token, given as plain text or as JSON under one of the names in use."""
    text = answer.body.decode("utf-8", "replace").strip()
    try:
        said: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        said = text
    if isinstance(said, dict):
        said = next((said[key] for key in ("jwt", "token", "access_token") if said.get(key)), "")
    if isinstance(said, str) and looks_like_token(said):
        return said
    # What was answered is not shown: it may be a token in a shape that is new to us.
    raise not_json(call, msgspec.structs.replace(answer, body=b""), "the answer holds no JWT")


def looks_like_token(text: str) -> bool:
    """Tell a JWT: three parts, and nothing that could not be sent in a header."""
    return text.count(".") == 2 and all("!" <= c <= "~" for c in text)  # noqa: PLR2004 - JWT's form
