"""The cloud's API: each request is checked, answered, and its answer checked again."""

import logging
import secrets
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vcosim import tokens
from vcosim.description import Description, Operation
from vcosim.gate import Circumstances, Gate, page
from vcosim.journal import Arrival, Visit
from vcosim.operations import HANDLERS
from vcosim.records import Client, Customer
from vcosim.reply import RefusedError, Reply
from vcosim.request import Call, OutOfRangeError, read_body, read_path, read_query
from vcosim.schema import mismatch
from vcosim.simulation import Simulation
from vcosim.throttle import Throttle, ThrottledError

READS = ("GET", "HEAD", "OPTIONS")
LOG = logging.getLogger(__name__)


class OutsideError(RefusedError):
    """A request outside the description: refused and remembered as the client's breach."""


class Target(NamedTuple):
    """What a method and path mean."""

    path: str
    operation: Operation | None
    allowed: tuple[str, ...]
    """The methods that the path has, where the asked one is not among them."""
    values: dict[str, str]


class Asked(NamedTuple):
    """A request taken apart."""

    target: Target
    pairs: list[tuple[str, str]]
    raw: bytes
    media: str
    token: str


class Api:
    """The ASGI application below ``/api/1``."""

    def __init__(self, simulation: Simulation, description: Description) -> None:
        if missing := set(description.operations) ^ set(HANDLERS):
            raise ValueError(f"described and implemented operations differ: {sorted(missing)}")
        self._simulation = simulation
        self._description = description
        self._gate = Gate(simulation)
        self._throttle = Throttle(simulation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            LOG.info(
                "a client went away within the body of %s %s", request.method, request.url.path
            )
            return
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        target = self._target(request.method, request.url.path)
        token = _token(request.headers.get("authorization", ""))
        raw = await request.body()
        asked = Asked(
            target=target,
            pairs=parse_qsl(request.url.query, keep_blank_values=True),
            raw=raw,
            media=request.headers.get("content-type", "").partition(";")[0].strip().lower(),
            token=token,
        )

        async def inner(met: Circumstances) -> Response:
            return await self._checked(asked, met)

        claims = self._claims(token)
        arrival = Arrival(
            method=request.method,
            route=target.operation.route if target.operation else "",
            path=target.path,
            query=request.url.query,
            client=claims.azp if claims else "",
            mutating=request.method not in READS,
        )
        return await self._gate.serve(arrival, inner)

    async def by_hand(
        self, client: str, method: str, path: str, pairs: list[tuple[str, str]], raw: bytes
    ) -> Response:
        """Answer a call that no log, fault or throttle sees."""
        target = self._target(method, self._description.base + path)
        token = self._simulation.mint(client, 60.0, offline=False)
        asked = Asked(target, pairs, raw, "application/json" if raw else "", token)
        visit = Visit(seq=0, mutating=0, method=method, route="", path=path, client=client)
        try:
            call = self._call(asked, frozenset())
            return await self._done(call, Circumstances(visit, frozenset(), patient=True))
        except RefusedError as error:
            return _refusal(error)

    def _target(self, method: str, full: str) -> Target:
        path = full.removeprefix(self._description.base)
        allowed: list[str] = []
        if full.startswith(self._description.base + "/"):
            for operation, values in self._description.routes(path):
                if operation.method == method:
                    return Target(path, operation, (), values)
                allowed.append(operation.method)
        return Target(path, None, tuple(allowed), {})

    def _claims(self, token: str) -> tokens.Claims | None:
        try:
            return tokens.read(self._simulation.secret, token)
        except tokens.BadTokenError:
            return None

    async def _checked(self, asked: Asked, met: Circumstances) -> Response:
        simulation = self._simulation
        try:
            client = self._known(asked)
            self._throttle.enter(client.id)
            return await self._done(self._call(asked, met.hidden), met)
        except OutsideError as error:
            simulation.journal.breach("client", met.visit, _why(error), simulation.clock.now())
            return _refusal(error)
        except RefusedError as error:
            return _refusal(error)
        except ThrottledError as error:
            return page(429, html=False, retry_after=error.seconds)

    def _known(self, asked: Asked) -> Client:
        """Return who asks, if there is something behind the path; raises RefusedError."""
        target = asked.target
        if target.operation is None and target.allowed:
            raise OutsideError(405, "The method is not allowed for the requested URL.")
        if target.operation is None or read_path(target.operation, target.values) is None:
            raise OutsideError(404, f"The requested URL {target.path} was not found on the server.")
        claims = self._claims(asked.token)
        if claims is None:
            raise RefusedError(401, "Unauthorized: a valid Bearer token is required")
        if claims.exp <= self._simulation.clock.now():
            raise RefusedError(401, "Unauthorized: the token has expired")
        client = self._simulation.store.get(Client, "", claims.azp)
        if client is None:
            raise RefusedError(401, f"Unauthorized: client {claims.azp} is unknown")
        return client

    def _call(self, asked: Asked, hidden: frozenset[str]) -> Call:
        """Return the call a request makes; raises OutsideError or RefusedError."""
        client = self._known(asked)
        operation = asked.target.operation
        path = read_path(operation, asked.target.values) if operation else None
        if operation is None or path is None:
            raise OutsideError(404, "Not found")
        customer = str(path.get("customer_id", ""))
        try:
            query = read_query(operation, asked.pairs)
            body = read_body(operation, asked.raw, asked.media)
        except OutOfRangeError:
            raise
        except RefusedError as error:
            raise OutsideError(error.status, error.message, error.errors) from error
        self._may_reach(client, customer)
        return Call(
            operation=operation,
            path=path,
            query=query,
            body=body,
            raw=asked.raw,
            customer=customer,
            customers=client.customers,
            user=client.name,
            token=asked.token,
            hidden=hidden,
        )

    def _may_reach(self, client: Client, customer: str) -> None:
        if not customer:
            return
        if self._simulation.store.get(Customer, "", customer) is None:
            raise RefusedError(404, f"Customer {customer} not found")
        if customer not in client.customers:
            raise RefusedError(403, f"Access to customer {customer} is denied")

    async def _done(self, call: Call, met: Circumstances) -> Response:
        """Run the handler, wait for what it began, and check its answer."""
        simulation = self._simulation
        cloud = simulation.settled()
        is_list = call.operation.method == "GET" and call.operation.lists
        seen = simulation.seen_by(cloud, met.visit, is_list=is_list)
        try:
            with cloud.store.transaction():
                reply = HANDLERS[call.operation.key](seen, call)
        except RefusedError:
            raise
        except Exception as error:
            LOG.exception("%s", call.operation.key)
            return self._own_fault(met, f"{type(error).__name__}: {error}")
        if met.patient and simulation.switches.replies == "blocking":
            await simulation.clock.until(reply.until)
        return self._answer(call.operation, reply, met)

    def _answer(self, operation: Operation, reply: Reply, met: Circumstances) -> Response:
        switches = self._simulation.switches
        body, empty = reply.body, reply.body is None
        if not reply.settled:
            body = {"success": True} if switches.no_schema_body == "success" else None
            empty = switches.no_schema_body == "empty"
        if reply.status not in operation.answers:
            return self._own_fault(met, f"status {reply.status} is not described")
        kind = operation.answers[reply.status]
        if kind is not None and (why := mismatch(kind, body)):
            return self._own_fault(met, f"answer of {operation.key}: {why}")
        if switches.absent_fields == "omit":
            body = _without_nulls(body)
        content = b"" if empty else msgspec.json.encode(body)
        return Response(content, reply.status, reply.headers, "application/json")

    def _own_fault(self, met: Circumstances, why: str) -> Response:
        """Answer as the platform does when something breaks inside, and remember why."""
        simulation = self._simulation
        now = simulation.clock.now()
        simulation.journal.breach("simulator", met.visit, why, now)
        code = f"{secrets.token_hex(16)}-{now}"
        text = f"Something went wrong, please contact support with error code {code}"
        content = msgspec.json.encode({"message": text, "errorcode": code})
        return Response(content, 500, media_type="application/json")


def _token(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _why(error: RefusedError) -> str:
    details = (f"{name}: {text}" if name else text for name, text in (error.errors or {}).items())
    return "; ".join([error.message, *details])


def _refusal(error: RefusedError) -> Response:
    return Response(msgspec.json.encode(error.body()), error.status, media_type="application/json")


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        kept = {name: _without_nulls(one) for name, one in value.items()}
        return {
            name: one for name, one in kept.items() if one is not None or name == "virtual_machine"
        }
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
