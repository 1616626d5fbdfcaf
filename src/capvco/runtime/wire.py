"""The metadata of the few objects that the runtime itself reads: Leases and Events."""

from datetime import UTC, datetime

from msgspec import Struct, field


class Owner(Struct, frozen=True, rename="camel"):
    """An owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Struct, frozen=True, rename="camel"):
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
    owner_references: tuple[Owner, ...] = ()


def micro_now() -> str:
    """Return the current time as a Kubernetes MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
