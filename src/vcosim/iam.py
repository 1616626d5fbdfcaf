"""The identity provider beside the cloud: keys for tokens, old tokens for new ones."""

import hmac
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vcosim import tokens
from vcosim.gate import Circumstances, Gate
from vcosim.journal import Arrival
from vcosim.records import Client
from vcosim.reply import RefusedError
from vcosim.simulation import Simulation

OFFLINE = "offline_access"


class Iam:
    """The ASGI application with the two paths of the IAM that clients need."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._gate = Gate(simulation)
        self._handlers = {
            ("GET", "/v1/oauth/jwt/refresh"): self._refresh,
            ("POST", "/v1/oauth/access_token"): self._access_token,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        path = request.url.path
        handler = self._handlers.get((request.method, path))

        async def inner(_: Circumstances) -> Response:
            if handler is None:
                return Response("404 page not found\n", 404, media_type="text/plain")
            try:
                return handler(request, await request.body())
            except RefusedError as error:
                return Response(error.message + "\n", error.status, media_type="text/plain")

        # The query may hold a secret, which does not belong into a log.
        arrival = Arrival(
            method=request.method,
            route=path if handler else "",
            path=path,
            query="",
            client="",
            mutating=False,
        )
        response = await self._gate.serve(arrival, inner)
        await response(scope, receive, send)

    def _refresh(self, request: Request, _: bytes) -> Response:
        """Answer a new token for an old one, expired or not, as plain text."""
        token = request.headers.get("authorization", "").partition(" ")[2].strip()
        try:
            claims = tokens.read(self._simulation.secret, token)
        except tokens.BadTokenError as error:
            raise RefusedError(401, f"Unauthorized: {error}") from error
        needed = self._simulation.switches.refresh_needs_offline_access
        if needed and claims.refresh_token is None:
            raise RefusedError(400, "Bad Request: the token was not issued with offline_access")
        if self._simulation.store.get(Client, "", claims.azp) is None:
            raise RefusedError(401, f"Unauthorized: client {claims.azp} is unknown")
        query = dict(parse_qsl(request.url.query))
        fresh = self._simulation.mint(
            claims.azp, _validity(query), offline=bool(claims.refresh_token)
        )
        return Response(fresh, media_type="text/plain")

    def _access_token(self, request: Request, body: bytes) -> Response:
        """Answer a token for a client id and secret."""
        values = dict(parse_qsl(request.url.query)) | dict(parse_qsl(body.decode("latin-1")))
        if values.get("grant_type") != "client_credentials":
            raise RefusedError(400, "Bad Request: grant_type must be client_credentials")
        client = self._simulation.store.get(Client, "", values.get("client_id", ""))
        given = values.get("client_secret", "").encode()
        if client is None or not hmac.compare_digest(client.secret.encode(), given):
            raise RefusedError(401, "Unauthorized: client_id or client_secret is wrong")
        offline = OFFLINE in values.get("scope", "").replace(",", " ").split()
        token = self._simulation.mint(client.id, _validity(values), offline=offline)
        wants_json = "json" in request.headers.get("accept", "")
        if values.get("response_type") == "id_token" and not wants_json:
            return Response(token, media_type="application/jwt")
        answer = {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": int(min(_validity(values), self._simulation.switches.token_seconds)),
            "scope": OFFLINE if offline else "",
            "info": {"username": client.id},
        }
        return Response(msgspec.json.encode(answer), media_type="application/json")


def _validity(values: dict[str, str]) -> float:
    """Return the wanted life in seconds; it can only shorten the usual one."""
    text = values.get("validity", "")
    if not text:
        return float("inf")
    if not text.isdigit() or int(text) < 1:
        raise RefusedError(400, f"Bad Request: validity {text!r} must be a number of seconds")
    return float(text)
