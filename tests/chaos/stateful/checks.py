"""What must always hold, and what must hold once nothing goes wrong any more."""

from collections.abc import Collection, Mapping

from tests.chaos.stateful.life import Life, Machine, owner
from vcosim.ledger import Row


def always(life: Life, counts: Mapping[str, int]) -> None:
    """No reservation that no record knows of, none too many, no second VM, nothing foreign gone.

    ``counts``: how many vGPUs each machine that was ever made asks for.
    """
    rows, vms, machines = life.holdings(), life.vms(), life.machines()
    named = [vm.name for vm in vms]
    assert len(named) == len(set(named)), f"two VMs of one name: {named}"
    suspects = [row for row in rows if not _known(row, machines)]
    suspects += [row for row in rows if _excessive(row, rows, machines, counts)]
    if suspects:
        # What was released between the two looks is no longer known, and rightly so.
        still = {row.vgpu_id for row in life.holdings()}
        suspects = [row for row in suspects if row.vgpu_id in still]
    assert not suspects, f"nobody knows of {suspects}\n{life.picture()}"
    untouched(life)


def _known(row: Row, machines: Mapping[str, Machine]) -> bool:
    found = machines.get(owner(row))
    return found is not None and found.knows(row)


def _excessive(
    row: Row, rows: Collection[Row], machines: Mapping[str, Machine], counts: Mapping[str, int]
) -> bool:
    """Say whether a machine holds more than it asks for, beyond attempts given up as lost."""
    name = owner(row)
    found = machines.get(name)
    if found is None or found.record is None:
        return False  # that is the other check's
    held = [one for one in rows if owner(one) == name and one.name not in found.record.lost]
    return len(held) > counts.get(name, 0)


def untouched(life: Life) -> None:
    """What is not ours is as it was: held, with nobody's VM, and no change was ever asked of it."""
    rows = {r.vgpu_id: r for r in life.control.ledger().rows if r.vgpu_id in life.foreign}
    assert all(rows[one].released_at is None and not rows[one].vms for one in life.foreign), rows
    vms = {vm.name: vm for vm in life.vms() if vm.name in life.foreign_vms}
    assert vms == life.foreign_vms, f"{vms} is not {life.foreign_vms}"
    changes = life.control.calls(mutating=True)
    ids = {f"/vgpus/{one}" for one in life.foreign}
    ids |= {f"/vms/{vm.id}" for vm in life.foreign_vms.values()}
    touched = [c for c in changes if any(f"{one}/" in f"{c.path}/" for one in ids)]
    assert not touched, f"something foreign was touched: {touched}"


def settled(life: Life, name: str, count: int) -> bool:
    """Say whether a machine is up, with what it asked for and nothing else."""
    found = life.machines().get(name)
    if found is None or not found.running or found.record is None:
        return False
    held = {row.vgpu_id for row in life.holdings(name)}
    recorded = {slot.vgpu_id for slot in found.record.gpus}
    whole = len(held) == count and held == recorded == found.attached
    return whole and [vm.status for vm in life.vms(name)] == ["RUNNING"]


def gone(life: Life, name: str) -> bool:
    """Say whether nothing is left of a machine."""
    return name not in life.machines()


def left(life: Life, name: str) -> None:
    """Nothing is held for a machine that is gone."""
    assert not life.holdings(name), f"{name} is gone and holds something\n{life.picture()}"
    assert not life.our_vms(name), f"{name} is gone and has a VM\n{life.picture()}"
