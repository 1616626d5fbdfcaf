"""Conditions, their summary, and what of a change is worth an Event."""

from collections.abc import Iterable

from msgspec import Struct

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, Proposed, find
from capvco.services.outcome import Pending


class Notice(Struct, frozen=True):
    """An Event to emit."""

    warning: bool
    reason: str
    message: str


def true(type_: ConditionType, message: str = "") -> Proposed:
    """Return a condition that holds."""
    return Proposed(type_, "True", Reason.READY, message)


def false(type_: ConditionType, pending: Pending) -> Proposed:
    """Return a condition that does not hold yet, and why."""
    return Proposed(type_, "False", pending.reason, pending.message)


def paused(*, yes: bool, why: str = "") -> Proposed:
    """Return the Paused condition."""
    if yes:
        return Proposed(ConditionType.PAUSED, "True", Reason.PAUSED, why)
    return Proposed(ConditionType.PAUSED, "False", Reason.NOT_PAUSED)


_ASIDE = (ConditionType.PAUSED, ConditionType.GPU_READY)
"""Conditions that say nothing about the infrastructure."""


def ready(parts: Iterable[Proposed], pending: Pending | None) -> Proposed:
    """Summarize: what is waited for comes first, else the first part that does not hold."""
    if pending is not None:
        return false(ConditionType.READY, pending)
    for part in parts:
        if part.status != "True" and part.type not in _ASIDE:
            return Proposed(ConditionType.READY, part.status, part.reason, part.message)
    return true(ConditionType.READY)


_QUIET = frozenset(
    {
        Reason.WAITING_FOR_OWNER,
        Reason.WAITING_FOR_BOOTSTRAP_DATA,
        Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE,
        Reason.WAITING_FOR_CONTROL_PLANE,
        Reason.NOT_PAUSED,
    }
)


def notices(
    before: Iterable[Condition], after: Iterable[Condition], *, failing: bool
) -> tuple[Notice, ...]:
    """Return an Event for each condition whose status or reason changed; nothing for a repeat."""
    old = tuple(before)
    changed = []
    for condition in after:
        was = find(old, condition.type)
        same = was is not None and (was.status, was.reason) == (condition.status, condition.reason)
        if not same and condition.reason not in _QUIET:
            changed.append(condition)
    # Ready repeats the part that does not hold; one Event tells it.
    told = {(c.reason, c.message) for c in changed if c.type != ConditionType.READY}
    return tuple(
        _notice(c, failing=failing)
        for c in changed
        if c.type != ConditionType.READY or (c.reason, c.message) not in told
    )


def _notice(condition: Condition, *, failing: bool) -> Notice:
    holds = condition.status == "True"
    reason = condition.type if holds and condition.reason == Reason.READY else condition.reason
    message = condition.message or f"{condition.type} is {condition.status}"
    return Notice(failing and not holds, str(reason), message)
