"""Processes told apart for certain: pid, start time and boot; and ending those one owns."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_POLL_SECONDS: Final = 0.02
_KILLED_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Identity:
    """One process, never mistaken for a later one with the same pid."""

    pid: int
    start: int
    """Clock ticks between boot and the start of the process."""
    boot: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return identify(self.pid) == self


def identify(pid: int) -> Identity | None:
    """Say who has this pid now; None where nobody, or a zombie, has it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Identity(pid, int(fields[19]), _BOOT_ID.read_text("utf-8").strip())


def end(identity: Identity, grace: float) -> None:
    """End this process and its group: SIGTERM, SIGKILL after `grace` seconds. Idempotent.

    Does nothing where the pid belongs to somebody else by now.
    """
    if not identity.alive:
        return
    _signal(identity.pid, signal.SIGTERM)
    if not wait_gone(identity, grace) and identity.alive:
        _signal(identity.pid, signal.SIGKILL)
        wait_gone(identity, _KILLED_SECONDS)


def wait_gone(identity: Identity, seconds: float) -> bool:
    """Wait until this process has ended; False where it still runs after so many seconds."""
    deadline = time.monotonic() + seconds
    while identity.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


class Records:
    """The processes a state directory owns, one small file each, written by the processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where the process of this name writes its record."""
        return self.folder / f"{name}.json"

    def write(self, name: str, identity: Identity) -> None:
        """Record a process that does not record itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / f"{name}.json.new"
        new.write_text(json.dumps(vars(identity)))
        new.replace(self.path(name))

    def read(self, name: str) -> Identity | None:
        """Give the recorded process; None where there is no whole record."""
        try:
            found = json.loads(self.path(name).read_bytes())
            return Identity(int(found["pid"]), int(found["start"]), str(found["boot"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def living(self) -> dict[str, Identity]:
        """Give the recorded processes that still run, by name."""
        names = sorted(path.stem for path in self.folder.glob("*.json"))
        found = {name: self.read(name) for name in names}
        return {name: who for name, who in found.items() if who is not None and who.alive}

    def forget(self, name: str) -> None:
        """Drop a record. Idempotent."""
        self.path(name).unlink(missing_ok=True)
