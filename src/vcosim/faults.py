"""Faults on order: rules that say which call goes wrong, when, and how."""

import random
import re
from typing import Literal

import msgspec

from vcosim.journal import Visit

Kind = Literal[
    "lose_before",
    "lose_after",
    "status",
    "slow",
    "truncate",
    "lag",
    "partial",
    "capacity",
]
ENDS_THE_CALL = ("lose_before", "lose_after", "status", "truncate")


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls a rule is about; an empty field fits everything."""

    method: str = ""
    """Regular expression for the whole method, e.g. ``POST|DELETE``."""
    route: str = ""
    """Regular expression found in the route template, e.g. ``/gpus/[{]gpu_id}$``."""
    path: str = ""
    """Regular expression found in the path."""
    client: str = ""
    mutating: bool | None = None

    def fits(self, visit: Visit) -> bool:
        """Say whether a call is meant."""
        return (
            (not self.method or re.fullmatch(self.method, visit.method) is not None)
            and (not self.route or re.search(self.route, visit.route) is not None)
            and (not self.path or re.search(self.path, visit.path) is not None)
            and (not self.client or self.client == visit.client)
            and (self.mutating is None or self.mutating == (visit.mutating > 0))
        )


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On which of the matching calls a rule acts; without any field on all of them."""

    nth: int = 0
    """Only the n-th matching call, counted from the adding of the rule."""
    every: int = 0
    """Every n-th matching call."""
    mutating_nth: int = 0
    """Only the n-th mutating call of all, counted from the last clearing of the call log."""
    probability: float = 1.0
    seed: int = 0
    """The draws depend on it and on the number of the matching call alone."""

    def strikes(self, seen: int, visit: Visit) -> bool:
        """Say whether the ``seen``-th matching call is struck."""
        if self.mutating_nth:
            return visit.mutating == self.mutating_nth
        if self.nth:
            return seen == self.nth
        if self.every:
            return seen % self.every == 0
        if self.probability < 1.0:
            return random.Random(f"{self.seed}:{seen}").random() < self.probability  # noqa: S311 - repeatable draws
        return True


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes wrong."""

    kind: Kind
    """lose_before: the connection breaks, nothing happened. lose_after: it breaks, all happened.
    status: another answer, before or after (``committed``) the work. slow: the answer waits.
    truncate: the body ends early. lag: lists show the world as it was. partial: a location does
    not answer in lists over all locations. capacity: a card has this capacity from now on."""
    status: int = 503
    retry_after: float | None = None
    html: bool = True
    committed: bool = False
    seconds: float = 0.0
    keep: float = 0.5
    """truncate: which part of the body arrives."""
    clean: bool = False
    """truncate: Content-Length fits what arrives; otherwise the connection breaks."""
    calls: int = 0
    """lag: for so many lists (0 with ``seconds``: no limit)."""
    lists: str = ""
    """lag: regular expression found in the templates of the lists that lag; empty: all lists."""
    location: str = ""
    gpu_id: str = ""
    capacity: int = 0


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault: which calls, which of them, what happens, how often at most (0: no limit)."""

    action: Action
    match: Match = Match()
    when: When = When()
    times: int = 0
    id: str = ""


class Armed(msgspec.Struct, frozen=True, kw_only=True):
    """A rule at work: how many matching calls it saw and how many it struck."""

    rule: Rule
    seen: int = 0
    fired: int = 0


def take(armed: list[Armed], visit: Visit) -> tuple[list[Armed], list[Action]]:
    """Return the rules after a call, and what is to happen to it."""
    after: list[Armed] = []
    actions: list[Action] = []
    for one in armed:
        if not one.rule.match.fits(visit):
            after.append(one)
            continue
        seen = one.seen + 1
        spent = one.rule.times and one.fired >= one.rule.times
        struck = not spent and one.rule.when.strikes(seen, visit)
        if struck:
            actions.append(one.rule.action)
        after.append(Armed(rule=one.rule, seen=seen, fired=one.fired + struck))
    return after, actions


def checked(rule: Rule) -> Rule:
    """Return the rule if its expressions and numbers make sense; raises ValueError."""
    for name in ("method", "route", "path"):
        _expression(name, getattr(rule.match, name))
    _expression("lists", rule.action.lists)
    if not 0.0 <= rule.when.probability <= 1.0:
        raise ValueError(f"probability must be from 0 to 1, not {rule.when.probability}")
    if not 0.0 <= rule.action.keep <= 1.0:
        raise ValueError(f"keep must be from 0 to 1, not {rule.action.keep}")
    if rule.action.kind == "capacity" and not (rule.action.location and rule.action.gpu_id):
        raise ValueError("capacity needs location and gpu_id")
    if rule.action.kind == "partial" and not rule.action.location:
        raise ValueError("partial needs location")
    return rule


def _expression(name: str, text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{name} {text!r} is no regular expression: {error}") from error
