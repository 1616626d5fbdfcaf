"""The ledger: what every reservation cost, second by second, and what is still held.

A vGPU is billed from its reservation to its permanent deletion, attached or not, in the recycle bin
or not. Rows stay for ever; only a reset of the world removes them.
"""

import json
import sqlite3

import msgspec

from vcosim.records import Vgpu
from vcosim.store import Store


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation; times in seconds since the epoch, ``released_at`` is None while held."""

    vgpu_id: str
    name: str
    gpu_id: str
    location: str
    customer: str
    reserved_at: float
    released_at: float | None
    seconds: float
    vms: tuple[dict[str, object], ...]
    """One entry per attachment: vm_id, cloudspace_id, attached_at, detached_at."""


class Totals(msgspec.Struct, frozen=True):
    """Reservations made, released, and still held."""

    made: int
    released: int
    held: int
    seconds: float


class Ledger(msgspec.Struct, frozen=True):
    """All rows and their sums."""

    rows: tuple[Row, ...]
    totals: Totals


def reserved(store: Store, vgpu: Vgpu, at: float) -> None:
    """Open a row."""
    store.db.execute(
        "INSERT INTO ledger (location, vgpu_id, customer, name, gpu_id, reserved_at, vms)"
        " VALUES (?, ?, ?, ?, ?, ?, '[]')",
        (vgpu.location, vgpu.id, vgpu.parent, vgpu.name, vgpu.gpu_id, at),
    )


def released(store: Store, vgpu: Vgpu, at: float) -> None:
    """Close the row: nothing is billed after this moment."""
    detached(store, vgpu, at)
    store.db.execute(
        "UPDATE ledger SET released_at = ? WHERE location = ? AND vgpu_id = ?",
        (at, vgpu.location, vgpu.id),
    )


def attached(store: Store, vgpu: Vgpu, vm_id: str, cloudspace_id: str, at: float) -> None:
    """Note that a VM has the vGPU from now on."""
    history = _history(store, vgpu)
    entry = {"vm_id": int(vm_id), "cloudspace_id": cloudspace_id, "attached_at": at}
    _write(store, vgpu, [*history, {**entry, "detached_at": None}])


def detached(store: Store, vgpu: Vgpu, at: float) -> None:
    """Note that no VM has the vGPU any more; idempotent."""
    history = _history(store, vgpu)
    if history and history[-1]["detached_at"] is None:
        _write(store, vgpu, [*history[:-1], {**history[-1], "detached_at": at}])


def held_of_card(store: Store, location: str, gpu_id: str) -> int:
    """Count the reservations that take room on a card."""
    row = store.db.execute(
        "SELECT count(*) FROM ledger WHERE location = ? AND gpu_id = ? AND released_at IS NULL",
        (location, gpu_id),
    ).fetchone()
    return int(row[0])


def read(store: Store, now: float) -> Ledger:
    """Return the whole ledger as of now."""
    rows = tuple(_row(found, now) for found in _rows(store))
    open_rows = sum(row.released_at is None for row in rows)
    seconds = sum(row.seconds for row in rows)
    return Ledger(rows, Totals(len(rows), len(rows) - open_rows, open_rows, seconds))


def _rows(store: Store) -> sqlite3.Cursor:
    return store.db.execute(
        "SELECT vgpu_id, name, gpu_id, location, customer, reserved_at, released_at, vms"
        " FROM ledger ORDER BY seq"
    )


def _row(found: tuple[str, str, str, str, str, float, float | None, str], now: float) -> Row:
    vgpu_id, name, gpu_id, location, customer, start, end, vms = found
    return Row(
        vgpu_id=vgpu_id,
        name=name,
        gpu_id=gpu_id,
        location=location,
        customer=customer,
        reserved_at=start,
        released_at=end,
        seconds=max(0.0, (now if end is None else end) - start),
        vms=tuple(json.loads(vms)),
    )


def _history(store: Store, vgpu: Vgpu) -> list[dict[str, object]]:
    row = store.db.execute(
        "SELECT vms FROM ledger WHERE location = ? AND vgpu_id = ?", (vgpu.location, vgpu.id)
    ).fetchone()
    return list(json.loads(row[0])) if row else []


def _write(store: Store, vgpu: Vgpu, history: list[dict[str, object]]) -> None:
    store.db.execute(
        "UPDATE ledger SET vms = ? WHERE location = ? AND vgpu_id = ?",
        (json.dumps(history), vgpu.location, vgpu.id),
    )
