"""Object metadata and conditions, as Kubernetes spells them.

Structs declare only what CAPVCO reads: everything else, ``managedFields`` above all, is dropped
when an object is decoded.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

ConditionStatus = Literal["True", "False", "Unknown"]


class OwnerReference(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that this one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False

    @property
    def group(self) -> str:
        """The API group, without the version: owners are matched by group and kind only."""
        return self.api_version.rpartition("/")[0]


class ObjectMeta(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Standard object metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    def owner(self, group: str, kind: str) -> OwnerReference | None:
        """Return the first owner of that kind, whatever its version, controller or not."""
        for reference in self.owner_references:
            if reference.kind == kind and reference.group == group:
                return reference
        return None


class Condition(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One aspect of the observed state of an object."""

    type: Annotated[
        str, Meta(min_length=1, max_length=316, pattern=r"^[A-Za-z]([A-Za-z0-9_./-]*[A-Za-z0-9])?$")
    ]
    """Type of the condition, in CamelCase."""

    status: ConditionStatus
    """True, False or Unknown."""

    reason: Annotated[
        str, Meta(min_length=1, max_length=256, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Why the condition has this status, as one CamelCase word from the documented list."""

    message: Annotated[str, Meta(max_length=32768)] = ""
    """What a person should know: what happened, where, and what to do."""

    last_transition_time: Annotated[
        str, Meta(max_length=64, extra_json_schema={"format": "date-time"})
    ]
    """When the status last changed (RFC 3339)."""

    observed_generation: Annotated[int, Meta(ge=0)] | None = None
    """The generation of the spec that this condition was set for."""


class Proposed(Struct, frozen=True):
    """A condition as a reconcile wants it: the time is decided when it is merged."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


def now() -> str:
    """Return the current time as Kubernetes writes it, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_conditions(
    present: Iterable[Condition],
    wanted: Iterable[Proposed],
    *,
    generation: int,
    at: str,
    dropped: Iterable[str] = (),
) -> tuple[Condition, ...]:
    """Merge wanted conditions into the present ones, sorted by type.

    ``lastTransitionTime`` changes only with the status, so an unchanged state yields an equal
    tuple and therefore no write.
    """
    merged = {condition.type: condition for condition in present}
    for gone in dropped:
        merged.pop(gone, None)
    for want in wanted:
        before = merged.get(want.type)
        same = before is not None and before.status == want.status
        merged[want.type] = Condition(
            type=want.type,
            status=want.status,
            reason=want.reason,
            message=want.message[:32768],
            last_transition_time=before.last_transition_time if before and same else at,
            observed_generation=generation or None,
        )
    return tuple(merged[name] for name in sorted(merged))


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of that type, if it is set."""
    return next((c for c in conditions if c.type == type_), None)


def has_annotation(annotations: Mapping[str, str], name: str) -> bool:
    """Say whether an annotation is present: by contract its value does not count."""
    return name in annotations
