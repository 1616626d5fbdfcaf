"""The simulation: store, clock, switches and faults together, their start and their reset."""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from vcosim import lifecycle, tokens, world
from vcosim.clock import Clock, Mode
from vcosim.cloud import Cloud
from vcosim.faults import Action, Armed, Rule, checked, take
from vcosim.journal import Journal, Visit
from vcosim.records import Card, Client
from vcosim.store import Store
from vcosim.switches import Switches, changed

T = TypeVar("T")


class ClockState(msgspec.Struct, frozen=True):
    """What a restart must know of the clock: its time (manual) or its lead (real)."""

    mode: Mode
    value: float


@dataclass
class Lag:
    """A view of the past that lists still show."""

    store: Store
    lists: str
    until: float
    calls: int


class Simulation:
    """One cloud. Not thread-safe: everything runs in one event loop."""

    def __init__(self, store: Store, clock: Mode = "real") -> None:
        self.store = store
        self.journal = Journal(store)
        self.iam_domain = ""
        self.clock = self._started_clock(clock)
        self.switches = self._remembered("switches", Switches) or Switches()
        self.armed: list[Armed] = self._remembered("faults", list[Armed]) or []
        self._lags: list[Lag] = []
        if not self._remembered("secret", str):
            store.remember("secret", secrets.token_hex(32))
        self.secret = (self._remembered("secret", str) or "").encode()

    def _remembered(self, name: str, kind: type[T]) -> T | None:
        text = self.store.fact(name)
        return msgspec.json.decode(text, type=kind) if text else None

    def _started_clock(self, mode: Mode) -> Clock:
        state = self._remembered("clock", ClockState)
        if state is None or state.mode != mode:
            return Clock(mode)
        if mode == "manual":
            return Clock(mode, state.value)
        return Clock(mode, lead=state.value)

    # The world

    def settled(self) -> Cloud:
        """Return the cloud as of now, all finished actions ended."""
        now = self.clock.now()
        lifecycle.settle(self.store, now)
        return Cloud(self.store, now, self.switches, self.iam_domain)

    def seed(self, start: world.World) -> None:
        """Add a world to what is there."""
        with self.store.transaction():
            world.seed(self.store, start, self.clock.now())

    def reset(self, start: world.World | None = None) -> None:
        """Forget everything but switches and tokens, and start from a world (or the last one)."""
        chosen = start or self._remembered("world", world.World) or world.World()
        with self.store.transaction():
            clients = self.store.find(Client)
            self.store.clear_world()
            self.journal.clear_calls()
            self.journal.clear_breaches()
            for client in clients:  # so that keys handed out before stay good
                self.store.put(client)
            world.seed(self.store, chosen, self.clock.now())
            self.store.remember("world", chosen)
            self._arm([])
        self._lags.clear()

    def set_switches(self, values: dict[str, object]) -> Switches:
        """Change switches; raises ValueError."""
        self.switches = changed(self.switches, values)
        self.store.remember("switches", self.switches)
        return self.switches

    def advance(self, seconds: float) -> float:
        """Move the clock forward and end what became due; return the new time."""
        now = self.clock.advance(seconds)
        value = now if self.clock.mode == "manual" else self.clock.lead
        self.store.remember("clock", ClockState(self.clock.mode, value))
        self.settled()
        return now

    # Tokens

    def mint(self, client_id: str, seconds: float, *, offline: bool) -> str:
        """Return a fresh token of a client, good for so many seconds."""
        now = self.clock.now()
        claims = tokens.Claims(
            username=client_id,
            azp=client_id,
            iat=now,
            exp=now + min(seconds, self.switches.token_seconds),
            scope=("offline_access",) if offline else (),
            refresh_token=secrets.token_urlsafe(8) if offline else None,
        )
        return tokens.minted(self.secret, claims)

    def revoke(self) -> None:
        """Make all tokens issued so far invalid, refreshable or not."""
        self.secret = secrets.token_hex(32).encode()
        self.store.remember("secret", self.secret.decode())

    # Faults

    def _arm(self, armed: list[Armed]) -> None:
        self.armed = armed
        self.store.remember("faults", armed)

    def add_fault(self, rule: Rule) -> Rule:
        """Put a rule to work; returns it with its id. Raises ValueError."""
        number = self.store.number("fault")
        named = replace(checked(rule), id=rule.id or f"fault-{number}")
        others = [one for one in self.armed if one.rule.id != named.id]
        self._arm([*others, Armed(rule=named)])
        return named

    def remove_faults(self, ids: Iterable[str] | None = None) -> None:
        """Take rules away, all of them without ids; lagging lists catch up."""
        gone = None if ids is None else set(ids)
        self._arm([] if gone is None else [one for one in self.armed if one.rule.id not in gone])
        self._lags.clear()

    def struck(self, visit: Visit) -> list[Action]:
        """Return what is to happen to a call, and do what happens to the world."""
        if not self.armed:
            return []
        armed, actions = take(self.armed, visit)
        if armed != self.armed:
            self._arm(armed)
        for action in actions:
            if action.kind == "lag":
                self._lag(action)
            elif action.kind == "capacity":
                self.set_capacity(action.location, action.gpu_id, action.capacity)
        return actions

    def _lag(self, action: Action) -> None:
        now = self.settled().now
        until = now + action.seconds if action.seconds else float("inf")
        calls = action.calls or -1
        self._lags.append(Lag(self.store.snapshot(), action.lists, until, calls))

    def seen_by(self, cloud: Cloud, visit: Visit, *, is_list: bool) -> Cloud:
        """Return the cloud that a call sees: an earlier one where its list lags."""
        if not is_list or not self._lags:
            return cloud
        self._lags = [one for one in self._lags if cloud.now < one.until and one.calls != 0]
        for lag in self._lags:
            if re.search(lag.lists, visit.route):
                lag.calls -= 1
                return Cloud(lag.store, cloud.now, cloud.switches, cloud.iam_domain)
        return cloud

    def set_capacity(self, location: str, gpu_id: str, capacity: int) -> Card:
        """Give a card another capacity; raises KeyError for an unknown card."""
        card = self.store.get(Card, location, gpu_id)
        if card is None:
            raise KeyError(f"no card {gpu_id} in {location}")
        changed_card = replace(card, capacity=capacity)
        self.store.put(changed_card)
        return changed_card
