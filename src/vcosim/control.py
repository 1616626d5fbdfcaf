"""A client of the control port, for tests and the demo."""

from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
import msgspec

from vcosim import ledger
from vcosim.faults import Action, Armed, Match, Rule, When
from vcosim.journal import Breach, Count, Logged
from vcosim.records import Card, Client, Vm

T = TypeVar("T")

__all__ = ["Action", "Control", "ControlError", "Match", "Rule", "When"]


class ControlError(Exception):
    """The control port refused; its message says why."""


class Breaches(msgspec.Struct, frozen=True):
    """Requests outside the description, and answers of the simulator outside it."""

    client: tuple[Breach, ...]
    simulator: tuple[Breach, ...]

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self.client or self.simulator)


class Time(msgspec.Struct, frozen=True):
    """The simulator's clock."""

    mode: str
    now: float


class CardRoom(Card, frozen=True, kw_only=True, tag=False):
    """A card and how many vGPUs it can still give."""

    free: int = 0


class Userdata(msgspec.Struct, frozen=True):
    """What a guest reads: from where the caller had put it, as given, and as text."""

    source: str
    userdata: Any
    text: str


class HandResult(msgspec.Struct, frozen=True):
    """The answer to an act by hand."""

    status: int
    body: Any


class _Port:
    """Requests and their decoding."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=60.0, trust_env=False)

    def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: object = None,
        *,
        query: dict[str, str | int] | None = None,
    ) -> T:
        content = None if body is None else msgspec.json.encode(body)
        answer = self._http.request(method, path, content=content, params=query)
        if answer.is_error:
            raise ControlError(f"{method} {path}: {answer.status_code} {answer.text}")
        return msgspec.json.decode(answer.content, type=kind)

    def close(self) -> None:
        self._http.close()


class Faults:
    """The rules that make calls go wrong."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def add(
        self,
        action: Action,
        match: Match | None = None,
        when: When | None = None,
        *,
        times: int = 0,
        id: str = "",  # noqa: A002 - the rule's own word
    ) -> Rule:
        """Put a rule to work; returns it with its id."""
        rule = Rule(action=action, match=match or Match(), when=when or When(), times=times, id=id)
        return self._port.ask(Rule, "POST", "/faults", rule)

    def list(self) -> list[Armed]:
        """Return the rules and what they did so far."""
        return self._port.ask(list[Armed], "GET", "/faults")

    def remove(self, rule_id: str) -> None:
        """Take one rule away."""
        self._port.ask(dict[str, Any], "DELETE", f"/faults/{rule_id}")

    def clear(self) -> None:
        """Take all rules away; lagging lists catch up."""
        self._port.ask(dict[str, Any], "DELETE", "/faults")


class Clock:
    """The simulator's time."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._port.ask(Time, "GET", "/clock").now

    def advance(self, seconds: float) -> float:
        """Move the clock forward; returns the new time, everything due by then is done."""
        return self._port.ask(Time, "POST", "/clock", {"seconds": seconds}).now


class Cards:
    """The cards and their capacity."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def list(self, location: str = "") -> list[CardRoom]:
        """Return the cards, of one location or of all."""
        found = self._port.ask(list[CardRoom], "GET", "/cards")
        return [one for one in found if location in ("", one.location)]

    def set(self, location: str, gpu_id: str, capacity: int) -> None:
        """Give a card a capacity."""
        self._change(location, gpu_id, {"capacity": capacity})

    def take(self, location: str, gpu_id: str, count: int = 1) -> None:
        """Make a card smaller."""
        self._change(location, gpu_id, {"change": -count})

    def give_back(self, location: str, gpu_id: str, count: int = 1) -> None:
        """Make a card larger."""
        self._change(location, gpu_id, {"change": count})

    def _change(self, location: str, gpu_id: str, body: dict[str, int]) -> None:
        self._port.ask(dict[str, Any], "PATCH", f"/cards/{location}/{gpu_id}", body)


class Hand:
    """What a person could do in the portal, unseen by log and faults."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str | int | bool] | None = None,
        body: dict[str, Any] | None = None,
        client_id: str = "",
    ) -> HandResult:
        """Make any call of the API, path below ``/api/1``; raises ControlError if refused."""
        act = {
            "method": method,
            "path": path,
            "query": query or {},
            "body": body,
            "client_id": client_id,
        }
        result = self._port.ask(HandResult, "POST", "/hand", act)
        if result.status >= httpx2.codes.BAD_REQUEST:
            raise ControlError(f"{method} {path} by hand: {result.status} {result.body}")
        return result

    def delete_vm(self, vm: Vm, *, permanently: bool = False, detach_gpu: bool = False) -> None:
        """Delete a VM."""
        customer = self._customer_of(vm)
        self.call(
            "DELETE",
            f"/customers/{customer}/cloudspaces/{vm.parent}/vms/{vm.id}",
            query={"permanently": permanently, "detach_gpu": detach_gpu},
        )

    def _customer_of(self, vm: Vm) -> str:
        world = self._port.ask(dict[str, list[dict[str, Any]]], "GET", "/state")
        spaces = {one["id"]: one["parent"] for one in world.get("cloudspace", [])}
        return str(spaces[vm.parent])

    def delete_vgpu(
        self, customer: str, location: str, vgpu_id: str, *, permanently: bool = False
    ) -> None:
        """Move a vGPU to the recycle bin, or end it."""
        self.call(
            "DELETE",
            f"/customers/{customer}/locations/{location}/vgpus/{vgpu_id}",
            query={"permanently": permanently},
        )

    def add_vgpu(self, customer: str, location: str, gpu_id: str, name: str) -> str:
        """Reserve a vGPU that no program knows of; returns its id."""
        path = f"/customers/{customer}/locations/{location}/gpus/{gpu_id}"
        return str(self.call("POST", path, body={"vgpu_name": name}).body["vgpu_id"])


class Control:
    """The control port of a running simulator."""

    def __init__(self, url: str) -> None:
        self._port = _Port(url)
        self.faults = Faults(self._port)
        self.clock = Clock(self._port)
        self.cards = Cards(self._port)
        self.hand = Hand(self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._port.close()

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Return all objects by kind."""
        return self._port.ask(dict[str, list[dict[str, Any]]], "GET", "/state")

    def reset(self, world: object = None) -> None:
        """Start over, with a world (plain values) or the last one; keys stay, faults go."""
        self._port.ask(dict[str, Any], "POST", "/reset", world)

    def seed(self, world: object) -> None:
        """Add a world (plain values) to what is there."""
        self._port.ask(dict[str, Any], "POST", "/seed", world)

    def ledger(self) -> ledger.Ledger:
        """Return what was reserved, for how long, and what is held."""
        return self._port.ask(ledger.Ledger, "GET", "/ledger")

    def breaches(self) -> Breaches:
        """Return where the description was broken."""
        return self._port.ask(Breaches, "GET", "/breaches")

    def clear_breaches(self) -> None:
        """Forget the breaches."""
        self._port.ask(dict[str, Any], "DELETE", "/breaches")

    def calls(  # noqa: PLR0913 - each is one optional filter
        self,
        *,
        method: str = "",
        route: str = "",
        path: str = "",
        client: str = "",
        mutating: bool = False,
        after: int = 0,
    ) -> list[Logged]:
        """Return the calls that fit all given filters, oldest first; path is a prefix."""
        query: dict[str, str | int] = {
            "method": method,
            "route": route,
            "path": path,
            "client": client,
            "mutating": str(mutating).lower(),
            "after": after,
        }
        return self._port.ask(list[Logged], "GET", "/calls", query=query)

    def counts(self) -> list[Count]:
        """Return how often each route was called, by status."""
        return self._port.ask(list[Count], "GET", "/calls/counts")

    def clear_calls(self) -> None:
        """Forget the calls and count mutating calls from 1 again."""
        self._port.ask(dict[str, Any], "DELETE", "/calls")

    def switches(self) -> dict[str, Any]:
        """Return the switches."""
        return self._port.ask(dict[str, Any], "GET", "/switches")

    def set(self, **switches: object) -> None:
        """Change switches."""
        self._port.ask(dict[str, Any], "PATCH", "/switches", switches)

    def vms(self, location: str = "") -> list[Vm]:
        """Return the VMs, those in the recycle bin included."""
        found = self._port.ask(list[Vm], "GET", "/vms")
        return [one for one in found if location in ("", one.location)]

    def userdata(self, location: str, vm_id: int | str) -> Userdata:
        """Return what the guest of a VM reads."""
        return self._port.ask(Userdata, "GET", f"/vms/{location}/{vm_id}/userdata")

    def token(self, client_id: str, seconds: float = 86400.0, *, offline: bool = True) -> str:
        """Return a fresh token of a client."""
        wish = {"client_id": client_id, "seconds": seconds, "offline": offline}
        return self._port.ask(dict[str, str], "POST", "/tokens", wish)["token"]

    def revoke_tokens(self) -> None:
        """Make all tokens issued so far invalid."""
        self._port.ask(dict[str, Any], "DELETE", "/tokens")

    def clients(self) -> list[Client]:
        """Return the API keys."""
        return self._port.ask(list[Client], "GET", "/clients")
