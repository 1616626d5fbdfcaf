"""The control port: what a test or a curious person may see and change behind the cloud's back."""

from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vcosim import ledger, world
from vcosim.api import Api
from vcosim.faults import Rule
from vcosim.journal import Filter
from vcosim.operations import vgpus
from vcosim.operations.vm_create import guest_userdata
from vcosim.records import Card, Client, Vm
from vcosim.simulation import Simulation

T = TypeVar("T")


class Hand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An act of a person in the portal: a call of the API, unlogged and untouched by faults."""

    method: str
    path: str
    query: dict[str, str | int | bool] = {}
    body: dict[str, Any] | None = None
    client_id: str = ""
    """Whose hand; empty: the first client that reaches the customer of the path."""


class Advance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the clock is moved, in seconds."""

    seconds: float


class Capacity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new capacity of a card: as such, or as a difference."""

    capacity: int | None = None
    change: int = 0


class TokenWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token for a client."""

    client_id: str
    seconds: float = 86400.0
    offline: bool = True


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def _body(request: Request, kind: type[T]) -> T:
    return msgspec.json.decode(await request.body() or b"{}", type=kind)


class ControlApi:
    """Handlers of the control port; see docs/vcosim.md."""

    ROUTES: ClassVar[dict[tuple[str, str], str]] = {
        ("GET", "/state"): "state",
        ("POST", "/reset"): "reset",
        ("POST", "/seed"): "seed",
        ("GET", "/ledger"): "ledger",
        ("GET", "/breaches"): "breaches",
        ("DELETE", "/breaches"): "clear_breaches",
        ("GET", "/calls"): "calls",
        ("GET", "/calls/counts"): "counts",
        ("DELETE", "/calls"): "clear_calls",
        ("GET", "/clock"): "clock",
        ("POST", "/clock"): "advance",
        ("GET", "/faults"): "faults",
        ("POST", "/faults"): "add_fault",
        ("DELETE", "/faults"): "clear_faults",
        ("DELETE", "/faults/{id}"): "remove_fault",
        ("GET", "/switches"): "switches",
        ("PATCH", "/switches"): "set_switches",
        ("GET", "/cards"): "cards",
        ("PATCH", "/cards/{location}/{gpu_id}"): "capacity",
        ("GET", "/vms"): "vms",
        ("GET", "/vms/{location}/{id}/userdata"): "userdata",
        ("POST", "/hand"): "hand",
        ("POST", "/tokens"): "mint",
        ("DELETE", "/tokens"): "revoke",
        ("GET", "/clients"): "clients",
    }
    """Method and path → the name of the handler."""

    def __init__(self, simulation: Simulation, api: Api) -> None:
        self._simulation = simulation
        self._api = api

    def app(self) -> ASGIApp:
        """Return the application."""
        return Starlette(
            routes=[
                Route(path, getattr(self, name), methods=[method])
                for (method, path), name in self.ROUTES.items()
            ],
            exception_handlers={
                ValueError: _refused,
                msgspec.ValidationError: _refused,
                msgspec.DecodeError: _refused,
                KeyError: _missing,
            },
        )

    async def state(self, _: Request) -> Response:
        """Answer all objects by kind."""
        self._simulation.settled()
        return _json(self._simulation.store.everything())

    async def reset(self, request: Request) -> Response:
        """Start over, with the world in the body or the last one."""
        raw = await request.body()
        self._simulation.reset(world.parsed(msgspec.json.decode(raw)) if raw else None)
        return _json({})

    async def seed(self, request: Request) -> Response:
        """Add the world in the body to what is there."""
        self._simulation.seed(await _body(request, world.World))
        return _json({})

    async def ledger(self, _: Request) -> Response:
        """Answer what was reserved, for how long, and what is held."""
        cloud = self._simulation.settled()
        return _json(ledger.read(cloud.store, cloud.now))

    async def breaches(self, _: Request) -> Response:
        """Answer where the description was broken, by clients and by the simulator itself."""
        found = self._simulation.journal.breaches()
        return _json({k: [one for one in found if one.kind == k] for k in ("client", "simulator")})

    async def clear_breaches(self, _: Request) -> Response:
        """Forget the breaches."""
        self._simulation.journal.clear_breaches()
        return _json({})

    async def calls(self, request: Request) -> Response:
        """Answer the logged calls that fit the query."""
        wanted = msgspec.convert(dict(request.query_params), Filter, strict=False)
        return _json(self._simulation.journal.calls(wanted))

    async def counts(self, _: Request) -> Response:
        """Answer how often each route was called."""
        return _json(self._simulation.journal.counts())

    async def clear_calls(self, _: Request) -> Response:
        """Forget the calls and count mutating calls from 1 again."""
        self._simulation.journal.clear_calls()
        return _json({})

    async def clock(self, _: Request) -> Response:
        """Answer the time."""
        clock = self._simulation.clock
        return _json({"mode": clock.mode, "now": clock.now()})

    async def advance(self, request: Request) -> Response:
        """Move the clock forward."""
        now = self._simulation.advance((await _body(request, Advance)).seconds)
        return _json({"mode": self._simulation.clock.mode, "now": now})

    async def faults(self, _: Request) -> Response:
        """Answer the rules at work and what they did so far."""
        return _json(self._simulation.armed)

    async def add_fault(self, request: Request) -> Response:
        """Put a rule to work."""
        return _json(self._simulation.add_fault(await _body(request, Rule)))

    async def clear_faults(self, _: Request) -> Response:
        """Take all rules away."""
        self._simulation.remove_faults()
        return _json({})

    async def remove_fault(self, request: Request) -> Response:
        """Take one rule away."""
        self._simulation.remove_faults([request.path_params["id"]])
        return _json({})

    async def switches(self, _: Request) -> Response:
        """Answer the switches."""
        return _json(asdict(self._simulation.switches))

    async def set_switches(self, request: Request) -> Response:
        """Change some switches."""
        return _json(asdict(self._simulation.set_switches(await _body(request, dict[str, Any]))))

    async def cards(self, _: Request) -> Response:
        """Answer all cards with capacity and room."""
        cloud = self._simulation.settled()
        return _json(
            [{**asdict(one), "free": vgpus.room(cloud, one)} for one in cloud.store.find(Card)]
        )

    async def capacity(self, request: Request) -> Response:
        """Set or change the capacity of a card."""
        wish = await _body(request, Capacity)
        location, gpu_id = request.path_params["location"], request.path_params["gpu_id"]
        card = self._simulation.store.get(Card, location, gpu_id)
        if card is None:
            raise KeyError(f"no card {gpu_id} in {location}")
        base = card.capacity if wish.capacity is None else wish.capacity
        return _json(self._simulation.set_capacity(location, gpu_id, max(0, base + wish.change)))

    async def vms(self, _: Request) -> Response:
        """Answer all VMs with all that is known of them."""
        return _json(self._simulation.settled().store.find(Vm))

    async def userdata(self, request: Request) -> Response:
        """Answer what the guest of a VM reads."""
        location, key = request.path_params["location"], request.path_params["id"]
        vm = self._simulation.store.get(Vm, location, key)
        if vm is None:
            raise KeyError(f"no VM {key} in {location}")
        return _json(guest_userdata(vm))

    async def hand(self, request: Request) -> Response:
        """Do by hand what a person could do in the portal; answer status and body."""
        act = await _body(request, Hand)
        raw = b"" if act.body is None else msgspec.json.encode(act.body)
        response = await self._api.by_hand(
            act.client_id or self._somebody(act.path),
            act.method.upper(),
            act.path,
            parse_qsl(query_text(act.query), keep_blank_values=True),
            raw,
        )
        body = msgspec.Raw(response.body) if response.body else None
        return _json({"status": response.status_code, "body": body})

    def _somebody(self, path: str) -> str:
        """Return a client that reaches the customer of a path."""
        words = path.strip("/").split("/")
        for client in self._simulation.store.find(Client):
            if words[0] != "customers" or words[1] in client.customers:
                return client.id
        raise KeyError(f"no client reaches {path}")

    async def mint(self, request: Request) -> Response:
        """Answer a fresh token of a client."""
        wish = await _body(request, TokenWish)
        if self._simulation.store.get(Client, "", wish.client_id) is None:
            raise KeyError(f"no client {wish.client_id}")
        token = self._simulation.mint(wish.client_id, wish.seconds, offline=wish.offline)
        return _json({"token": token})

    async def revoke(self, _: Request) -> Response:
        """Make all tokens issued so far invalid."""
        self._simulation.revoke()
        return _json({})

    async def clients(self, _: Request) -> Response:
        """Answer the API keys."""
        return _json(self._simulation.store.find(Client))


async def _refused(_: Request, error: Exception) -> Response:
    return _json({"message": str(error)}, 400)


async def _missing(_: Request, error: Exception) -> Response:
    return _json({"message": str(error.args[0])}, 404)


def query_text(values: dict[str, str | int | bool]) -> str:
    """Return a query string as the API reads it."""
    return urlencode(
        {name: str(one).lower() if isinstance(one, bool) else one for name, one in values.items()}
    )
