"""One reconcile of one object: run the steps, keep the record, write the status once.

What goes wrong becomes a condition with a cause; what another try may cure is raised again
afterwards, so that the queue backs off.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, ObjectMeta, Proposed, merge_conditions, now
from capvco.controllers import report
from capvco.controllers.report import Notice
from capvco.runtime.cache import Cache
from capvco.runtime.controller import Result
from capvco.runtime.errors import Gone
from capvco.runtime.events import Recorder
from capvco.runtime.kinds import Kind
from capvco.runtime.kube import Kube
from capvco.services import record as records
from capvco.services.cloud import Waits
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import CorruptRecord, Record
from capvco.vco.errors import (
    CredentialsRefused,
    PartialList,
    Refused,
    Throttled,
    UnknownOutcome,
    VCOError,
)


class Status(Protocol):
    """What all our statuses have."""

    @property
    def conditions(self) -> tuple[Condition, ...]: ...  # noqa: D102 - the API's own word


class Infrastructure(Protocol):
    """VCOCluster and VCOMachine, as far as a pass treats them alike."""

    @property
    def metadata(self) -> ObjectMeta: ...  # noqa: D102
    @property
    def status(self) -> Status: ...  # noqa: D102


T = TypeVar("T", bound=Infrastructure)
_LATER = 15.0
"""Seconds until the next look at an object that was left alone."""


class DeletionBegun(Exception):  # noqa: N818 - an outcome: stop here, the next pass deletes
    """The object was found to be deleted while something was about to be bought for it."""


@dataclass(frozen=True)
class Tools(Generic[T]):
    """What the passes of one controller share."""

    kube: Kube
    kind: Kind[T]
    cache: Cache[T]
    events: Recorder
    waits: Waits
    finalizer: str
    clock: Callable[[], float] = time.time


class Pass(ABC, Generic[T]):
    """One reconcile of one object."""

    def __init__(self, tools: Tools[T], obj: T) -> None:
        self.tools = tools
        self.obj = obj
        self.parts: dict[ConditionType, Proposed] = {}
        self.dropped: set[ConditionType] = set()
        """Conditions that do not apply (any more)."""
        self.finished = False
        """Set when there is no status to write: the object is gone, or not to be touched yet."""

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted."""
        return self.obj.metadata.deletion_timestamp is not None

    @abstractmethod
    async def steps(self) -> Pending | None:
        """Do the work in order; Pending says what is waited for, None that all is as wanted."""

    @abstractmethod
    def status(self, conditions: tuple[Condition, ...], pending: Pending | None) -> Struct:
        """Return the whole status to write."""

    @abstractmethod
    def metadata(self, record: Record) -> Mapping[str, object]:
        """Return all that the manager ``capvco`` wants of the object, the record included."""

    async def run(self) -> Result:
        """Run the steps and report. Raises what a later try may cure."""
        fault: Exception | None = None
        try:
            pending = await self.steps()
        except Gone:
            return Result()
        except DeletionBegun:
            return Result(after=0.0)
        except Terminal as error:
            wait = self.tools.waits.resync
            pending = Pending(error.reason, error.message, wait, failure=True)
        except CorruptRecord as error:
            wait = self.tools.waits.resync
            pending = Pending(Reason.RECORD_UNREADABLE, str(error), wait, failure=True)
        except VCOError as error:
            pending, fault = self._explain(error), _curable(error)
        if self.finished:
            return Result(after=_LATER)
        await self._report(pending)
        if fault is not None:
            raise fault
        return Result(after=pending.after if pending else self.tools.waits.resync)

    def _explain(self, error: VCOError) -> Pending:
        match error:
            case CredentialsRefused():
                reason, failure = Reason.CREDENTIALS_REFUSED, True
            case Refused():
                reason, failure = Reason.REFUSED_BY_PLATFORM, True
            case UnknownOutcome():
                reason, failure = Reason.WAITING_FOR_PLATFORM, False
            case _:
                reason, failure = Reason.PLATFORM_UNREACHABLE, False
        wait = error.retry_after or self.tools.waits.capacity
        return Pending(reason, str(error), wait, failure)

    async def _report(self, pending: Pending | None) -> None:
        meta, before = self.obj.metadata, self.obj.status
        proposed = dict(self.parts)
        if ConditionType.PAUSED not in proposed:
            proposed[ConditionType.PAUSED] = report.paused(yes=False)
        if proposed[ConditionType.PAUSED].status == "False":
            proposed[ConditionType.READY] = report.ready(self.parts.values(), pending)
        conditions = merge_conditions(
            before.conditions,
            proposed.values(),
            generation=meta.generation,
            at=now(),
            dropped=self.dropped,
        )
        status: object = self.status(conditions, pending)
        if status == before:
            return
        written = await self.tools.kube.apply_status(
            self.tools.kind, self.obj, msgspec.to_builtins(status)
        )
        self.keep(written)
        self.reported(before.conditions, conditions)
        failing = pending is not None and pending.failure
        for notice in report.notices(before.conditions, conditions, failing=failing):
            self.emit(notice)

    def reported(self, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        """Take note of the conditions that were just written; a hook."""

    def emit(self, notice: Notice) -> None:
        """Emit an Event on the object."""
        self.tools.events.event(
            self.tools.kind,
            self.obj,
            "Warning" if notice.warning else "Normal",
            notice.reason,
            notice.message,
            action="Reconcile",
        )

    def keep(self, written: T) -> None:
        """Take the answer to a write for the object from now on, here and in the cache."""
        self.obj = written
        self.tools.cache.assume(written)

    def record(self) -> Record | None:
        """Return the stored record. Raises CorruptRecord."""
        return records.read(self.obj.metadata.annotations)

    async def save(self, record: Record) -> None:
        """Store the record. Raises DeletionBegun if the object turns out to be deleted."""
        was_deleting = self.deleting
        body = self.metadata(record)
        self.keep(await self.tools.kube.apply(self.tools.kind, self.obj, body))
        if self.deleting and not was_deleting:
            raise DeletionBegun

    async def hold(self) -> None:
        """Store the finalizer: only then may anything be paid for."""
        if self.tools.finalizer in self.obj.metadata.finalizers:
            return
        self.keep(await self.tools.kube.finalize(self.tools.kind, self.obj, [self.tools.finalizer]))
        if self.deleting:
            raise DeletionBegun

    async def let_go(self) -> None:
        """Drop the finalizer: everything is proven to be gone."""
        self.finished = True
        if self.tools.finalizer in self.obj.metadata.finalizers:
            await self.tools.kube.finalize(self.tools.kind, self.obj, [])


def _curable(error: VCOError) -> Exception | None:
    """Return the error if the queue should back off; a refusal is looked at again calmly."""
    calm = isinstance(error, (Refused, CredentialsRefused, Throttled, PartialList))
    return None if calm else error


def same_customer(record: Record, customer: str) -> None:
    """Refuse to act for another customer: there, everything of ours would look absent."""
    if record.customer != customer:
        raise Terminal(
            Reason.RECORD_UNREADABLE,
            f"the credentials are those of the customer {customer}, but what this object holds"
            f" belongs to {record.customer}: put the credentials of {record.customer} back",
        )
