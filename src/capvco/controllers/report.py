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


_ASIDE = (ConditionType.PAUSED, ConditionType.GPU_READY, ConditionType.GPU_DRIVER_READY)
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
        Reason.INSTALLING_GPU_DRIVER,
        # One cause in one cluster, which each of its machines would tell; the conditions do.
        Reason.WORKLOAD_CLUSTER_UNREACHABLE,
    }
)


def notices(
    before: Iterable[Condition], after: Iterable[Condition], *, failing: bool
) -> tuple[Notice, ...]:
    """Return Events for conditions whose status or reason changed; nothing for a repeat.

    An Event is a write like any other: parts that came to hold together are told by one.
    """
    changed = _changed(tuple(before), after)
    well = [c for c in changed if _holds(c) and not c.message and c.type != ConditionType.READY]
    # Ready repeats the part that does not hold; one Event tells it.
    told = {(c.reason, c.message) for c in changed if c.type != ConditionType.READY}
    rest = (
        c
        for c in changed
        if c not in well and (c.type != ConditionType.READY or (c.reason, c.message) not in told)
    )
    return (*_well(well), *(_notice(c, failing=failing) for c in rest))


def _changed(before: tuple[Condition, ...], after: Iterable[Condition]) -> list[Condition]:
    changed = []
    for condition in after:
        was = find(before, condition.type)
        same = was is not None and (was.status, was.reason) == (condition.status, condition.reason)
        if not same and condition.reason not in _QUIET:
            changed.append(condition)
    return changed


def _holds(condition: Condition) -> bool:
    return condition.status == "True" and condition.reason == Reason.READY


def _well(parts: list[Condition]) -> tuple[Notice, ...]:
    """Tell of all parts that came to hold, under the name of the last."""
    if not parts:
        return ()
    names = ", ".join(part.type for part in parts)
    message = f"{names} {'is' if len(parts) == 1 else 'are'} True"
    return (Notice(warning=False, reason=str(parts[-1].type), message=message),)


def _notice(condition: Condition, *, failing: bool) -> Notice:
    holds = condition.status == "True"
    reason = condition.type if _holds(condition) else condition.reason
    message = condition.message or f"{condition.type} is {condition.status}"
    return Notice(failing and not holds, str(reason), message)
