"""Whose a reservation is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.api.v1beta1.machine import VCOMachine, VCOMachineStatus
from capvco.cli.gpucheck.owners import (
    Claim,
    Knowledge,
    Owner,
    OwnerClass,
    Register,
    claim,
    machine_of,
)
from capvco.services import names
from capvco.services.record import Record, dump
from capvco.vco.models import VGPU
from tests.support.builders import (
    CLOUDSPACE,
    LOCATION,
    a_gpu_status,
    a_provisioned_status,
    a_record,
    a_slot,
    a_vco_machine,
    a_vgpu,
    a_vm_ref,
)

CUSTOMER = "customer-1"
LIVE, FOREIGN = OwnerClass.LIVE, OwnerClass.FOREIGN
ORPHAN, UNKNOWN = OwnerClass.ORPHAN, OwnerClass.UNKNOWN


def recorded(
    record: Record, name: str = "worker-1", status: VCOMachineStatus | None = None
) -> VCOMachine:
    return a_vco_machine(name, annotations={RECORD_ANNOTATION: dump(record)}, status=status)


def knowledge(*machines: VCOMachine, doubts: tuple[str, ...] = ()) -> Knowledge:
    found = [claim(machine, CUSTOMER) for machine in machines]
    return Knowledge(
        claims=tuple(c for c, _ in found if c), doubts=(*doubts, *(d for _, d in found if d))
    )


def owner(vgpu: VGPU, *machines: VCOMachine, doubts: tuple[str, ...] = ()) -> Owner:
    return Register(knowledge(*machines, doubts=doubts)).owner(vgpu, LOCATION)


ATTEMPT = a_slot(vgpu_id="")
HOLDER = recorded(a_record(a_slot()))
TRYING = recorded(a_record(ATTEMPT))
GIVEN_UP = recorded(a_record(lost=("capvco-worker-1-gpu-0",)))
OTHER_ID = recorded(a_record(a_slot(vgpu_id="vgpu-9")))
NAMELESS = recorded(a_record(), name="elsewhere")
RUNNING = recorded(a_record(), name="elsewhere", status=a_provisioned_status(vm_id=7))
FORGOT = a_vco_machine("elsewhere", status=a_provisioned_status(gpus=(a_gpu_status(),)))
NO_RECORD = a_vco_machine("worker-1")
OTHER_CUSTOMER = recorded(a_record(a_slot(), customer="customer-2"))
OTHER_LOCATION = recorded(a_record(a_slot(), location="nl-1"))
CORRUPT = a_vco_machine("elsewhere", annotations={RECORD_ANNOTATION: "{"})

OUR_NAME = a_vgpu()
OUR_BIN = a_vgpu(in_bin=True)
STRANGE_NAME = a_vgpu(name="render-farm")
NEAR_NAME = a_vgpu(name="capvco-worker-1")
ON_OUR_VM = a_vgpu(vm=a_vm_ref())
ON_VM_7 = a_vgpu(name="by-hand", vm=a_vm_ref(7, name="renamed"))
ON_STRANGER = a_vgpu(vm=a_vm_ref(99, name="somebody", cloudspace="cs-2"))
NAMESAKE_VM = a_vgpu(vm=a_vm_ref(99, name="worker-1", cloudspace="cs-2"))


@pytest.mark.parametrize(
    ("vgpu", "machines", "doubts", "kind"),
    [
        (OUR_NAME, (HOLDER,), (), LIVE),
        (STRANGE_NAME, (HOLDER,), (), LIVE),
        (OUR_BIN, (HOLDER,), (), LIVE),
        (OUR_NAME, (HOLDER,), ("closed port",), LIVE),
        (ON_STRANGER, (HOLDER,), (), LIVE),
        (OUR_NAME, (TRYING,), (), LIVE),
        (OUR_NAME, (GIVEN_UP,), (), LIVE),
        (ON_STRANGER, (TRYING,), (), FOREIGN),
        (ON_OUR_VM, (OTHER_ID,), (), LIVE),
        (ON_VM_7, (RUNNING,), (), LIVE),
        (ON_VM_7, (), (), FOREIGN),
        (STRANGE_NAME, (), (), FOREIGN),
        (STRANGE_NAME, (), ("closed port",), FOREIGN),
        (NEAR_NAME, (), (), FOREIGN),
        (ON_STRANGER, (), (), FOREIGN),
        (ON_STRANGER, (), ("closed port",), UNKNOWN),
        (NAMESAKE_VM, (OTHER_ID,), (), FOREIGN),
        (OUR_NAME, (), (), ORPHAN),
        (OUR_BIN, (), (), ORPHAN),
        (OUR_NAME, (NAMELESS,), (), ORPHAN),
        (OUR_NAME, (), ("forbidden",), UNKNOWN),
        (OUR_NAME, (CORRUPT,), (), UNKNOWN),
        (OUR_NAME, (OTHER_ID,), (), UNKNOWN),
        (OUR_NAME, (NO_RECORD,), (), UNKNOWN),
        (OUR_NAME, (FORGOT,), (), UNKNOWN),
        (STRANGE_NAME, (FORGOT,), (), UNKNOWN),
        (OUR_NAME, (OTHER_CUSTOMER,), (), ORPHAN),
        (OUR_NAME, (OTHER_LOCATION,), (), ORPHAN),
    ],
)
def test_class(
    vgpu: VGPU, machines: tuple[VCOMachine, ...], doubts: tuple[str, ...], kind: OwnerClass
) -> None:
    """Each constellation of claims and doubts has one class."""
    assert owner(vgpu, *machines, doubts=doubts).kind is kind


def test_a_live_one_names_its_machine_and_the_time_of_the_attempt() -> None:
    """A person can go from the reservation to the machine."""
    found = owner(OUR_NAME, HOLDER)
    assert (found.machine, found.since, found.why) == ("default/worker-1", 1000.0, "in its record")


def test_a_recorded_one_on_another_vm_says_so() -> None:
    """It is ours, and somebody attached it elsewhere."""
    assert owner(ON_STRANGER, HOLDER).why == (
        "in its record, but attached to the VM somebody, which is not its own"
    )


def test_a_corrupt_record_is_named_in_the_doubt() -> None:
    """The doubt says which object is to be repaired."""
    assert knowledge(CORRUPT).doubts == (
        "the record of VCOMachine default/elsewhere cannot be read, so it might hold anything",
    )


MACHINES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@given(MACHINES, st.integers(0, 15), st.text(max_size=36))
def test_every_name_that_capvco_gives_is_known_as_one(machine: str, slot: int, uid: str) -> None:
    """Otherwise its own leaks would be taken for foreign ones."""
    for name in names.vgpu_alternatives(machine, slot, uid):
        assert machine_of(name) == machine


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    some = st.sampled_from(["vgpu-1", "vgpu-2", "vgpu-3"])
    name = draw(st.sampled_from(["worker-1", "worker-2", "other"]))
    return Claim(
        machine=f"default/{name}",
        name=name,
        location=draw(st.sampled_from(["", LOCATION, "nl-1"])),
        ids=dict.fromkeys(draw(st.frozensets(some)), 1.0),
        attempts=draw(st.frozensets(st.sampled_from([f"capvco-{name}-gpu-0", "x"]))),
        hints=draw(st.frozensets(some)),
        cloudspaces=draw(st.frozensets(st.sampled_from([CLOUDSPACE, "cs-2"]))),
        vm_id=draw(st.none() | st.integers(1, 3)),
    )


@st.composite
def vgpus(draw: st.DrawFn) -> VGPU:
    vm = st.builds(
        a_vm_ref,
        st.integers(1, 3),
        name=st.sampled_from(["worker-1", "stranger"]),
        cloudspace=st.sampled_from([CLOUDSPACE, "cs-2"]),
    )
    return a_vgpu(
        draw(st.sampled_from(["vgpu-1", "vgpu-2"])),
        name=draw(st.sampled_from(["capvco-worker-1-gpu-0", "capvco-x-gpu-1-0a1b2c3d", "hand"])),
        vm=draw(st.none() | vm),
        in_bin=draw(st.booleans()),
    )


@given(vgpus(), st.lists(claims(), max_size=4), st.booleans())
def test_an_orphan_is_proven(vgpu: VGPU, made: list[Claim], doubtful: bool) -> None:
    """Orphans alone are ever released: so nothing attached, foreign, claimed or doubtful is one."""
    doubts = ("?",) if doubtful else ()
    found = Register(Knowledge(claims=tuple(made), doubts=doubts)).owner(vgpu, LOCATION)
    if found.kind is not ORPHAN:
        return
    here = [c for c in made if c.location in ("", LOCATION)]
    assert not doubtful
    assert vgpu.virtual_machine is None
    assert vgpu.vgpu_name != "hand"
    assert not any(vgpu.vgpu_id in c.ids or vgpu.vgpu_id in c.hints for c in here)
    assert not any(vgpu.vgpu_name in c.attempts for c in here)
    assert machine_of(vgpu.vgpu_name) not in {c.name for c in here}


@given(vgpus(), st.lists(claims(), max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_machines_changes_nothing(vgpu: VGPU, made: list[Claim], dice: Random) -> None:
    """Two looks at the same cluster agree."""
    mixed = sorted(made, key=lambda _: dice.random())
    kinds = {
        Register(Knowledge(claims=tuple(order))).owner(vgpu, LOCATION).kind
        for order in (made, mixed)
    }
    assert len(kinds) == 1


@given(vgpus(), st.lists(claims(), max_size=4))
def test_more_doubt_never_makes_an_orphan(vgpu: VGPU, made: list[Claim]) -> None:
    """A doubt turns orphans into unknowns, and leaves what is proven."""
    sure = Register(Knowledge(claims=tuple(made))).owner(vgpu, LOCATION)
    unsure = Register(Knowledge(claims=tuple(made), doubts=("?",))).owner(vgpu, LOCATION)
    assert unsure.kind is not ORPHAN
    assert (sure.kind is LIVE) == (unsure.kind is LIVE)
