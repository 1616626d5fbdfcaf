"""What the demo shows of a machine, and what of a change is worth a line; pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

# An object as the API server gives it: an open JSON document.
Object = Mapping[str, Any]


class Row(Struct, frozen=True, kw_only=True):
    """One VCOMachine on the screen."""

    name: str
    wanted: str
    model: str = ""
    vgpus: tuple[str, ...] = ()
    vm: str = ""
    attached: bool = False
    address: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""

    @property
    def running(self) -> bool:
        """Whether everything of the machine is up."""
        return self.phase == "Running" and self.reason == "Ready"


def row(vco_machine: Object) -> Row:
    """Read a VCOMachine."""
    meta, spec = vco_machine["metadata"], vco_machine["spec"]
    status = vco_machine.get("status", {})
    gpu, gpus = spec.get("gpu", {}), status.get("gpus", [])
    ready: Object = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
    count = gpu.get("count", 1)
    wanted = gpu.get("type") or gpu.get("profileId") or ""
    return Row(
        name=meta["name"],
        wanted=f"{count} x {wanted}" if wanted else "",
        model=gpus[0]["model"] if gpus else "",
        vgpus=tuple(held["vgpuId"] for held in gpus),
        vm=str(status.get("vmID", "")),
        attached=bool(gpus) and all(held["attached"] for held in gpus),
        address=next((a["address"] for a in status.get("addresses", [])), ""),
        phase=status.get("phase", ""),
        reason=ready.get("reason", ""),
        message=ready.get("message", ""),
    )


def changes(old: Mapping[str, Row], new: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield (machine, what happened) for each step between two looks."""
    for name, now in new.items():
        was = old.get(name, Row(name=name, wanted=now.wanted))
        if name not in old:
            yield name, f"wanted: {now.wanted}"
        yield from ((name, text) for text in _steps(was, now))
    for name in old:
        if name not in new:
            yield name, "gone: VM deleted, reservations released"


def _steps(was: Row, now: Row) -> Iterator[str]:
    if now.model and now.model != was.model:
        yield f"type resolved to {now.model}"
    for vgpu in now.vgpus:
        if vgpu not in was.vgpus:
            yield f"card reserved: vGPU {vgpu}"
    if now.vm and now.vm != was.vm:
        yield f"VM {now.vm} created"
    if now.attached and not was.attached:
        yield "vGPU attached before first boot"
    if now.phase == "Running" and was.phase != "Running":
        yield f"VM booted, address {now.address}"
    if now.phase == "Deleting" and was.phase != "Deleting":
        yield "being deleted"
    if now.phase == "Failed" and now.message != was.message:
        yield f"{now.reason}: {now.message}"
