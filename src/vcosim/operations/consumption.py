"""Consumption of a location, a cloudspace or a VM between two moments, in unit hours.

Counted are GPUs (``vgu``, from the ledger), vCPUs (``vcu``) and memory (``mu``, GiB) of VMs that
still exist; the other units are 0. What the real platform counts is not documented.
"""

from collections.abc import Iterable

from vcosim import ledger
from vcosim.cloud import Cloud
from vcosim.operations.vms import live_vms
from vcosim.records import Cloudspace, Vm
from vcosim.reply import Reply, bad
from vcosim.request import Call

HOUR = 3600.0
UNITS = ("su", "tu", "nu", "vcu", "mu", "piu", "wu", "fsu", "vgu")
Window = tuple[float, float]


def _window(call: Call) -> Window:
    start, end = call.required("start"), call.required("end")
    if end < start:
        raise bad(f"end {end} is before start {start}")
    return float(start), float(end)


def _hours(window: Window, start: float, end: float) -> float:
    return max(0.0, min(window[1], end) - max(window[0], start)) / HOUR


def _sum(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    return {unit: sum(row[unit] for row in rows) for unit in UNITS}


def _gpu_hours(cloud: Cloud, window: Window, location: str) -> dict[int, float]:
    """Return the hours of vGPUs that each VM of a location had."""
    hours: dict[int, float] = {}
    for row in ledger.read(cloud.store, cloud.now).rows:
        for one in row.vms if row.location == location else ():
            vm_id = int(str(one["vm_id"]))
            start, end = _time(one["attached_at"]), _time(one["detached_at"] or cloud.now)
            hours[vm_id] = hours.get(vm_id, 0.0) + _hours(window, start, end)
    return hours


def _of_vm(cloud: Cloud, vm: Vm, window: Window, gpus: dict[int, float]) -> dict[str, float]:
    hours = _hours(window, vm.created, cloud.now)
    used = {
        "vcu": vm.vcpus * hours,
        "mu": vm.memory / 1024 * hours,
        "vgu": gpus.get(int(vm.id), 0.0),
    }
    return {unit: used.get(unit, 0.0) for unit in UNITS}


def _time(value: object) -> float:
    return float(str(value))


def _vms(cloud: Cloud, space: Cloudspace, window: Window) -> list[dict[str, object]]:
    gpus = _gpu_hours(cloud, window, space.location)
    return [
        {"vm_id": int(vm.id), "name": vm.name, "consumption": _of_vm(cloud, vm, window, gpus)}
        for vm in live_vms(cloud, space)
    ]


def _total(vms: list[dict[str, object]]) -> dict[str, float]:
    return _sum([one["consumption"] for one in vms if isinstance(one["consumption"], dict)])


def of_vm(cloud: Cloud, call: Call) -> Reply:
    """Answer what one VM used."""
    vm, window = cloud.vm(call), _window(call)
    used = _of_vm(cloud, vm, window, _gpu_hours(cloud, window, vm.location))
    return Reply({"vm": {"vm_id": int(vm.id), "name": vm.name, "consumption": used}})


def of_cloudspace(cloud: Cloud, call: Call) -> Reply:
    """Answer what a cloudspace used, and each of its VMs."""
    space, window = cloud.cloudspace(call), _window(call)
    vms = _vms(cloud, space, window)
    return Reply({"cloudspace": {"consumption": _total(vms), "vms": vms}})


def of_location(cloud: Cloud, call: Call) -> Reply:
    """Answer what the customer used in a location, reservations without a VM apart."""
    location, window = cloud.location(call), _window(call)
    rows = tuple(
        row
        for row in ledger.read(cloud.store, cloud.now).rows
        if (row.location, row.customer) == (location, call.customer)
    )
    spaces = [
        (one, _vms(cloud, one, window))
        for one in cloud.store.find(Cloudspace, location=location, parent=call.customer)
    ]
    idle = [_idle(row, window, cloud.now) for row in rows]
    total = _sum([_total(vms) for _, vms in spaces])
    total["vgu"] += sum(hours for _, hours in idle)
    total["ou"] = 0.0
    return Reply(
        {
            "name": cloud.customer(call).name,
            "cloudspaces": [
                {
                    "cloudspace_id": one.id,
                    "name": one.name,
                    "mode": one.mode,
                    "consumption": _total(vms),
                    "vms": vms,
                }
                for one, vms in spaces
            ],
            "objectspaces": [],
            "unassigned_disks": [],
            "unassigned_vgpus": [
                {"vgpu_id": key, "consumption": {"vgu": hours}} for key, hours in idle if hours > 0
            ],
            "consumption": total,
        }
    )


def _idle(row: ledger.Row, window: Window, now: float) -> tuple[str, float]:
    """Return how long a reservation cost without any VM having it."""
    held = _hours(window, row.reserved_at, now if row.released_at is None else row.released_at)
    used = sum(
        _hours(window, _time(one["attached_at"]), _time(one["detached_at"] or now))
        for one in row.vms
    )
    return row.vgpu_id, max(0.0, held - used)


HANDLERS = {
    "GET {L}/consumption": of_location,
    "GET {CS}/consumption": of_cloudspace,
    "GET {VM}/consumption": of_vm,
}
