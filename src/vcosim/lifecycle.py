"""Actions end here: what an object becomes when its step is due.

Nothing runs in the background. Before anything reads the world, ``settle`` ends every step whose
time has come, in order, at the time it was due; so the world depends on the store and the clock
alone, and a simulator killed in the middle of an action ends it after its restart.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from vcosim import ledger
from vcosim.records import (
    Cloudspace,
    Connection,
    Group,
    GuestFile,
    Image,
    LoadBalancer,
    Note,
    PortForward,
    Record,
    ServerPool,
    Step,
    Vgpu,
    Vm,
)
from vcosim.store import Store

Ending = Callable[[Store, Any, float, str], None]


def settle(store: Store, now: float) -> None:
    """End all steps that are due; idempotent."""
    if store.due(now) is None:
        return
    with store.transaction():
        while record := store.due(now):
            if record.step is not None:  # always so: the store found it by its step
                ENDINGS[record.kind, record.step.name](
                    store, record, record.step.due, record.step.arg
                )


def key(record: Record) -> str:
    """Return the name under which notes and files belong to a record."""
    return f"{record.kind}:{record.location}:{record.id}"


def rest(store: Store, record: Record, at: float, status: str, **more: object) -> None:
    """Store a record whose action has ended."""
    store.put(replace(record, status=status, step=None, updated=at, **more))


def _vm_deployed(store: Store, vm: Vm, at: float, start_until: str) -> None:
    if start_until:
        step = Step("running", float(start_until))
        store.put(replace(vm, status="STARTING", step=step, updated=at))
    else:
        rest(store, vm, at, "HALTED")


def _vm_running(store: Store, vm: Vm, at: float, _: str) -> None:
    rest(store, vm, at, "RUNNING", running_since=at)


def _vm_halted(store: Store, vm: Vm, at: float, _: str) -> None:
    rest(store, vm, at, "HALTED", running_since=0.0)


def _vm_rested(store: Store, vm: Vm, at: float, status: str) -> None:
    rest(store, vm, at, status)


def _vm_binned(store: Store, vm: Vm, at: float, vgpus: str) -> None:
    part_with_vgpus(store, vm, at, vgpus)
    rest(store, vm, at, "DELETED", binned=at, running_since=0.0)


def _vm_destroyed(store: Store, vm: Vm, at: float, vgpus: str) -> None:
    part_with_vgpus(store, vm, at, "release" if vgpus == "bin" else vgpus)
    drop_vm(store, vm)


def drop_vm(store: Store, vm: Vm) -> None:
    """Remove a VM and all that was only its own."""
    for kind in (Note, GuestFile):
        for one in store.find(kind, parent=key(vm)):
            store.drop(one)
    leave_groups(store, vm)
    store.drop(vm)


def leave_groups(store: Store, vm: Vm) -> None:
    """Take a VM out of its anti-affinity groups."""
    for group in store.find(Group, location=vm.location, parent=vm.parent):
        if int(vm.id) in group.members:
            left = tuple(one for one in group.members if one != int(vm.id))
            store.put(replace(group, members=left))


def part_with_vgpus(store: Store, vm: Vm, at: float, policy: str) -> None:
    """Do with a leaving VM's vGPUs what was asked: keep, bin or release them."""
    for vgpu in store.find(Vgpu, location=vm.location, link=vm.id):
        if policy == "release":
            _vgpu_destroyed(store, vgpu, at, "")
        elif policy == "bin":
            rest(store, vgpu, at, "DELETED", binned=vgpu.binned or at, binned_with_vm=True)
        else:
            _vgpu_freed(store, vgpu, at, "")


def _vgpu_created(store: Store, vgpu: Vgpu, at: float, _: str) -> None:
    rest(store, vgpu, at, "CREATED", binned=0.0, binned_with_vm=False)


def _vgpu_assigned(store: Store, vgpu: Vgpu, at: float, _: str) -> None:
    rest(store, vgpu, at, "ASSIGNED")


def _vgpu_freed(store: Store, vgpu: Vgpu, at: float, _: str) -> None:
    ledger.detached(store, vgpu, at)
    status = "DELETED" if vgpu.binned else "CREATED"
    rest(store, vgpu, at, status, link="", binned_with_vm=False)


def _vgpu_binned(store: Store, vgpu: Vgpu, at: float, _: str) -> None:
    ledger.detached(store, vgpu, at)
    rest(store, vgpu, at, "DELETED", link="", binned=at)


def _vgpu_destroyed(store: Store, vgpu: Vgpu, at: float, _: str) -> None:
    ledger.released(store, vgpu, at)
    store.drop(vgpu)


def _cloudspace_deployed(store: Store, space: Cloudspace, at: float, _: str) -> None:
    rest(store, space, at, "DEPLOYED", binned=0.0)


def _cloudspace_binned(store: Store, space: Cloudspace, at: float, _: str) -> None:
    rest(store, space, at, "DELETED", binned=at)


def _cloudspace_destroyed(store: Store, space: Cloudspace, at: float, _: str) -> None:
    for vm in store.find(Vm, location=space.location, parent=space.id):
        _vm_destroyed(store, vm, at, "bin")
    for kind in (Group, ServerPool, LoadBalancer, PortForward, Connection):
        for one in store.find(kind, location=space.location, parent=space.id):
            store.drop(one)
    for note in store.find(Note, parent=key(space)):
        store.drop(note)
    store.drop(space)


def _image_created(store: Store, image: Image, at: float, status: str) -> None:
    rest(store, image, at, status, binned=0.0)


ENDINGS: dict[tuple[str, str], Ending] = {
    ("vm", "deployed"): _vm_deployed,
    ("vm", "running"): _vm_running,
    ("vm", "halted"): _vm_halted,
    ("vm", "rested"): _vm_rested,
    ("vm", "binned"): _vm_binned,
    ("vm", "destroyed"): _vm_destroyed,
    ("vgpu", "created"): _vgpu_created,
    ("vgpu", "assigned"): _vgpu_assigned,
    ("vgpu", "freed"): _vgpu_freed,
    ("vgpu", "binned"): _vgpu_binned,
    ("vgpu", "destroyed"): _vgpu_destroyed,
    ("cloudspace", "deployed"): _cloudspace_deployed,
    ("cloudspace", "binned"): _cloudspace_binned,
    ("cloudspace", "destroyed"): _cloudspace_destroyed,
    ("image", "created"): _image_created,
}
