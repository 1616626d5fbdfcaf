"""What a customer holds in one location, with owner and age of each reservation."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from capvco.cli.gpucheck.ages import least_ages
from capvco.cli.gpucheck.owners import Owner, OwnerClass, Register
from capvco.services.gpu_types import models
from capvco.vco.cloud import VCO
from capvco.vco.models import VGPU, GPUProfile


class AttachedTo(Struct, frozen=True, rename="camel", kw_only=True):
    """The VM that a reservation is attached to."""

    id: int
    name: str
    cloudspace_id: str


class Holding(Struct, frozen=True, rename="camel", kw_only=True):
    """One reservation: it costs until it is released permanently."""

    location: str
    vgpu_id: str
    name: str
    profile_id: str
    model: str
    status: str
    vm: AttachedTo | None
    in_bin: bool
    age_seconds: int | None
    """Seconds since the attempt that made it, or at least so many; null if nothing tells."""
    age_exact: bool
    owner: OwnerClass
    machine: str
    """VCOMachine, namespace/name, where one is known."""
    why: str


class Totals(Struct, frozen=True, rename="camel", kw_only=True):
    """Counts: ``held`` is all that is billed, the others are of what is shown."""

    held: int
    shown: int
    attached: int
    in_bin: int
    live: int
    foreign: int
    orphan: int
    unknown: int


async def listed(vco: VCO, location: str) -> tuple[VGPU, ...]:
    """Return all that is held, the recycle bin included: it is billed, too. Raises VCOError.

    Two lists, since it is not documented whether one list can have both. What moves to the bin
    between them is in both, and counted once.
    """
    present = await vco.gpus.vgpus(location)
    binned = await vco.gpus.vgpus(location, only_deleted=True)
    return tuple({vgpu.vgpu_id: vgpu for vgpu in (*present, *binned)}.values())


@dataclass(frozen=True, kw_only=True)
class Describer:
    """Says of listed reservations whose they are, and how old."""

    vco: VCO
    register: Register
    """From an answer of Kubernetes that was asked for *after* the reservations were listed: then
    an attempt that was in flight is among the claims."""
    now: float
    min_age: float

    async def describe(
        self, location: str, vgpus: Sequence[VGPU]
    ) -> tuple[tuple[Holding, ...], str]:
        """Return one row per reservation, and why ages are unclear. Raises VCOError."""
        profiles = await self.vco.gpus.profiles(location)
        owners = {vgpu.vgpu_id: self.register.owner(vgpu, location) for vgpu in vgpus}
        idle = {v.vgpu_id for v in vgpus if not v.vm_id and owners[v.vgpu_id].since is None}
        ages, unclear = await self._least_ages(location, idle)
        rows = [
            self._holding(location, vgpu, owners[vgpu.vgpu_id], ages.get(vgpu.vgpu_id), profiles)
            for vgpu in vgpus
        ]
        return tuple(sorted(rows, key=lambda row: (row.owner, row.name, row.vgpu_id))), unclear

    async def _least_ages(
        self, location: str, ids: Collection[str]
    ) -> tuple[Mapping[str, float], str]:
        if not ids:
            return {}, ""
        return await least_ages(self.vco, location, ids, now=self.now, wanted=self.min_age)

    def _holding(
        self,
        location: str,
        vgpu: VGPU,
        owner: Owner,
        least_age: float | None,
        profiles: Sequence[GPUProfile],
    ) -> Holding:
        age = least_age if owner.since is None else self.now - owner.since
        return Holding(
            location=location,
            vgpu_id=vgpu.vgpu_id,
            name=vgpu.vgpu_name,
            profile_id=vgpu.gpu_id,
            model=_model(vgpu, profiles),
            status=vgpu.status,
            vm=_vm(vgpu),
            in_bin=vgpu.in_bin,
            age_seconds=None if age is None else max(int(age), 0),
            age_exact=owner.since is not None,
            owner=owner.kind,
            machine=owner.machine,
            why=owner.why,
        )


def _vm(vgpu: VGPU) -> AttachedTo | None:
    vm = vgpu.virtual_machine
    if vm is None:
        return None
    return AttachedTo(id=vm.id or 0, name=vm.name, cloudspace_id=str(vm.cloudspace_id))


def _model(vgpu: VGPU, profiles: Sequence[GPUProfile]) -> str:
    card = [profile for profile in profiles if profile.id == vgpu.gpu_id]
    # A card that is no longer offered still has the description that it was reserved under.
    return models(card)[0].label if card else vgpu.description


def totals(everything: Sequence[Holding], shown: Sequence[Holding]) -> Totals:
    """Count."""
    kinds = [row.owner for row in shown]
    return Totals(
        held=len(everything),
        shown=len(shown),
        attached=sum(row.vm is not None for row in shown),
        in_bin=sum(row.in_bin for row in shown),
        live=kinds.count(OwnerClass.LIVE),
        foreign=kinds.count(OwnerClass.FOREIGN),
        orphan=kinds.count(OwnerClass.ORPHAN),
        unknown=kinds.count(OwnerClass.UNKNOWN),
    )
