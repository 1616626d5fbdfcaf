"""What the runtime needs to know of a Kubernetes kind, and of any object of it.

The runtime is generic over frozen msgspec structs: it asks of an object only that it has
metadata, by the protocols below. The structs themselves belong to whoever reads their fields.
"""
# ruff: noqa: D102 - the protocols' properties are metadata fields as Kubernetes documents them

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec.json import Decoder


class Key(NamedTuple):
    """The name of an object of some kind; the namespace is empty for cluster-wide kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Protocol):
    """The object that another one belongs to."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool: ...


class ObjectMeta(Protocol):
    """The metadata that every object has."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def creation_timestamp(self) -> str | None: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def finalizers(self) -> tuple[str, ...]: ...
    @property
    def owner_references(self) -> tuple[OwnerReference, ...]: ...


class Object(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Object)


def key_of(obj: Object) -> Key:
    """Return the key of an object."""
    return Key(obj.metadata.namespace, obj.metadata.name)


def version_of(obj: Object) -> int:
    """Return the resourceVersion as a number, 0 if the object has none yet.

    Within one kind a larger number is a later state of the cluster.
    """
    return int(obj.metadata.resource_version or 0)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind: where the apiserver serves it, and the frozen struct its objects decode to."""

    group: str
    version: str
    kind: str
    plural: str
    type: builtins.type[T]
    namespaced: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """The group and version as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def decoder(self) -> Decoder[T]:
        """The decoder of one object; fields that the struct does not declare are dropped."""
        return Decoder(self.type)

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of a subresource of it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)
