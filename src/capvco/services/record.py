"""The durable record: what CAPVCO intends and holds, kept in an annotation of the object.

Status is a cache and does not survive ``clusterctl move``; metadata does. So an intent is stored
here before the paid call, and the id at once after it. ``owner`` is the UID that the object had
when it was first seen: unlike the UID it stays the same when the object is moved or restored.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from capvco.api.v1beta1 import RECORD_ANNOTATION


class Slot(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One vGPU: intended since ``at``, and held once it has an id."""

    name: str
    profile_id: str
    model: str
    at: float
    """Unix time of the newest attempt to reserve."""
    vgpu_id: str = ""


class Record(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What one object intends and holds in the cloud."""

    owner: str
    customer: str = ""
    """Customer of the platform to whom all of this belongs."""
    identity: str = ""
    """Name of the credentials Secret: deletion must work when the VCOCluster is gone."""
    gpus: tuple[Slot, ...] = ()
    lost: tuple[str, ...] = ()
    """Names of attempts that were given up unanswered: should they turn up, they are released."""
    vm_at: float = 0.0
    """Unix time of the newest attempt to create the VM; 0 before the first."""
    location: str = ""
    cloudspace_id: str = ""
    cloudspace_name: str = ""
    cloudspace_at: float = 0.0
    """Unix time of the newest attempt to create the cloudspace."""
    endpoint: bool = False
    """Whether CAPVCO made the control-plane endpoint, rather than the user."""

    def with_slot(self, slot: Slot) -> "Record":
        """Return the record with a slot added, or replaced by its name."""
        names = [present.name for present in self.gpus]
        if slot.name not in names:
            return msgspec.structs.replace(self, gpus=(*self.gpus, slot))
        return msgspec.structs.replace(
            self, gpus=tuple(slot if p.name == slot.name else p for p in self.gpus)
        )

    def without_slot(self, name: str) -> "Record":
        """Return the record without a slot."""
        return msgspec.structs.replace(self, gpus=tuple(s for s in self.gpus if s.name != name))


class CorruptRecord(Exception):  # noqa: N818 - a state of the object, not a bug
    """The annotation cannot be read; nothing may be bought or released on a guess."""


def read(annotations: Mapping[str, str]) -> Record | None:
    """Read the record of an object, None if it has none yet. Raises CorruptRecord."""
    text = annotations.get(RECORD_ANNOTATION)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.MsgspecError as error:
        raise CorruptRecord(
            f"the annotation {RECORD_ANNOTATION} is not readable ({error}); it says what this"
            " object holds in the cloud: restore it, or list what is held with capvco-gpucheck"
        ) from error


def dump(record: Record) -> str:
    """Return the record as the value of the annotation."""
    return msgspec.json.encode(record).decode()
