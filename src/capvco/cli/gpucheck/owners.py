"""Whose a reservation is: what the VCOMachines claim, against what the platform lists. Pure.

A name alone proves nothing (docs/adr/0001-ownership.md). So a reservation is *live* by a recorded
id, by the VM that it is attached to, or by the name of a recorded attempt; it is an *orphan* only
if CAPVCO names its reservations so, nothing has it, and every VCOMachine was read and none of them
claims it or could claim its name. Whatever lies between is *unknown*.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from capvco.api.v1beta1.machine import VCOMachine
from capvco.services import record as records
from capvco.services.gpu_reservations import held
from capvco.services.record import CorruptRecord, Record
from capvco.vco.models import VGPU, VMRef

_OURS = re.compile(r"capvco-(.+)-gpu-\d+(?:-[0-9a-f]{8})?")


class OwnerClass(StrEnum):
    """What a reservation is to the management cluster that was asked."""

    LIVE = "live"
    FOREIGN = "foreign"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"


class Owner(Struct, frozen=True, kw_only=True):
    """Whose a reservation is, and what that rests on."""

    kind: OwnerClass
    why: str
    machine: str = ""
    """The VCOMachine, namespace/name, where one is known."""
    since: float | None = None
    """Unix time of the attempt that made it, where the record tells."""


class Claim(Struct, frozen=True, kw_only=True):
    """What one VCOMachine says that it has, or may have, on the platform."""

    machine: str
    """namespace/name."""
    name: str
    location: str = ""
    """Empty if it does not tell: then the claim counts everywhere."""
    ids: Mapping[str, float] = {}
    """Recorded vGPU ids, with the time of the attempt."""
    attempts: frozenset[str] = frozenset()
    """Names of attempts without a known outcome, given up or not."""
    hints: frozenset[str] = frozenset()
    """vGPU ids that only its status has."""
    cloudspaces: frozenset[str] = frozenset()
    vm_id: int | None = None


class Knowledge(Struct, frozen=True, kw_only=True):
    """What Kubernetes said: all claims, and every reason why they may not be all."""

    claims: tuple[Claim, ...] = ()
    doubts: tuple[str, ...] = ()


def machine_of(vgpu_name: str) -> str:
    """Return the machine in a name that CAPVCO gives to a reservation, empty for other names."""
    found = _OURS.fullmatch(vgpu_name)
    return found.group(1) if found else ""


def claim(machine: VCOMachine, customer: str) -> tuple[Claim | None, str]:
    """Return what a VCOMachine claims for a customer, and the doubt that it leaves, if any.

    Another customer's machine claims nothing here. One whose record cannot be read might hold
    anything.
    """
    meta, status = machine.metadata, machine.status
    who = f"{meta.namespace}/{meta.name}"
    record, doubt = None, ""
    try:
        record = records.read(meta.annotations)
    except CorruptRecord:
        doubt = f"the record of VCOMachine {who} cannot be read, so it might hold anything"
    if record is not None and record.customer not in ("", customer):
        return None, ""
    hints = frozenset(gpu.vgpu_id for gpu in status.gpus)
    return _claim(machine, who, record or Record(owner=""), hints), doubt


def _claim(machine: VCOMachine, who: str, record: Record, hints: frozenset[str]) -> Claim:
    status = machine.status
    ids = {slot.vgpu_id: slot.at for slot in held(record)}
    attempts = {slot.name for slot in record.gpus if not slot.vgpu_id} | set(record.lost)
    return Claim(
        machine=who,
        name=machine.metadata.name,
        location=record.location or status.location,
        ids=ids,
        attempts=frozenset(attempts),
        hints=hints - set(ids),
        cloudspaces=frozenset({record.cloudspace_id, status.cloudspace_id} - {""}),
        vm_id=status.vm_id,
    )


class Register:
    """All claims, indexed: tells whose a reservation is."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.doubts = knowledge.doubts
        self._by_id = _index((c, key) for c in knowledge.claims for key in c.ids)
        self._by_attempt = _index((c, key) for c in knowledge.claims for key in c.attempts)
        self._by_hint = _index((c, key) for c in knowledge.claims for key in c.hints)
        self._by_name = _index((c, c.name) for c in knowledge.claims)
        self._by_vm = _index((c, vm) for c in knowledge.claims for vm in _vms(c))

    def owner(self, vgpu: VGPU, location: str) -> Owner:
        """Say whose a reservation of a location is."""
        vm = vgpu.virtual_machine
        return self._live(vgpu, location) or self._not_live(vgpu, location, vm)

    def _live(self, vgpu: VGPU, location: str) -> Owner | None:
        if found := _at(self._by_id[vgpu.vgpu_id], location):
            return _live(found, _recorded(found, vgpu), found.ids[vgpu.vgpu_id])
        vm = vgpu.virtual_machine
        if vm is not None:
            keys = (f"{vm.cloudspace_id}/{vm.name}", f"{vm.cloudspace_id}#{vm.id}")
            of_vm = (found for key in keys if (found := _at(self._by_vm[key], location)))
            return next((_live(c, f"attached to its VM {vm.name}") for c in of_vm), None)
        if found := _at(self._by_attempt[vgpu.vgpu_name], location):
            return _live(found, "named by an attempt of it whose answer was lost")
        return None

    def _not_live(self, vgpu: VGPU, location: str, vm: VMRef | None) -> Owner:
        if hinted := _at(self._by_hint[vgpu.vgpu_id], location):
            why = f"only the status of VCOMachine {hinted.machine} has it, not its record"
            return Owner(kind=OwnerClass.UNKNOWN, why=why, machine=hinted.machine)
        machine = machine_of(vgpu.vgpu_name)
        if not machine:
            return Owner(kind=OwnerClass.FOREIGN, why="not a name that CAPVCO gives")
        if self.doubts:
            return Owner(kind=OwnerClass.UNKNOWN, why="Kubernetes cannot tell: see the doubts")
        if vm is not None:
            return Owner(
                kind=OwnerClass.FOREIGN, why=f"attached to the VM {vm.name}, no VCOMachine's"
            )
        if namesake := _at(self._by_name[machine], location):
            why = f"VCOMachine {namesake.machine} could have named it, but does not record it"
            return Owner(kind=OwnerClass.UNKNOWN, why=why, machine=namesake.machine)
        return Owner(kind=OwnerClass.ORPHAN, why="unattached, and no VCOMachine's")


def _index(pairs: Iterable[tuple[Claim, str]]) -> defaultdict[str, tuple[Claim, ...]]:
    found: defaultdict[str, tuple[Claim, ...]] = defaultdict(tuple)
    for one, key in pairs:
        found[key] = (*found[key], one)
    return found


def _vms(one: Claim) -> list[str]:
    by_name = [f"{space}/{one.name}" for space in one.cloudspaces]
    return by_name + [f"{space}#{one.vm_id}" for space in one.cloudspaces if one.vm_id]


def _at(claims: Iterable[Claim], location: str) -> Claim | None:
    # Ids are numbered by location, so a claim elsewhere is about something else.
    return min(
        (c for c in claims if c.location in ("", location)), key=lambda c: c.machine, default=None
    )


def _live(of: Claim, why: str, since: float | None = None) -> Owner:
    return Owner(kind=OwnerClass.LIVE, why=why, machine=of.machine, since=since)


def _recorded(of: Claim, vgpu: VGPU) -> str:
    vm = vgpu.virtual_machine
    if vm is None or (vm.name == of.name and vm.cloudspace_id in of.cloudspaces):
        return "in its record"
    return f"in its record, but attached to the VM {vm.name}, which is not its own"
