"""The state directory of one cluster: who owns it, what lies where in it."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from kubelocal.errors import DirectoryInUse, UsageError
from kubelocal.processes import Identity, Records, end, identify

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKER: Final = "kubelocal.state"
_OWNER: Final = "owner"
_PARTS: Final = ("etcd", "pki", "logs", "home", "clusterctl", "kubeconfigs")


def default_directory(env: Mapping[str, str]) -> Path:
    """Where the command keeps its cluster unless told: XDG_STATE_HOME/kubelocal."""
    base = env.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "kubelocal"


class Workspace:
    """Everything a cluster writes; nothing outside it is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.records = Records(self.directory / "processes")
        self._lock: IO[str] | None = None

    def part(self, name: str) -> Path:
        """Give one of the folders a start begins with empty."""
        return self.directory / name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.directory / "kubeconfig"

    def acquire(self) -> None:
        """Own the directory, end what an earlier owner left running, begin with empty folders.

        Raises DirectoryInUse where the earlier owner lives, UsageError where the folder holds
        something else.
        """
        self._claim_folder()
        self._take_lock()
        self.end_leftovers()
        me = identify(os.getpid())
        if me is not None:
            self.records.write(_OWNER, me)
        self._empty()

    def _take_lock(self) -> None:
        lock = (self.directory / "lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            owner = self.owner()
            who = f"process {owner.pid}" if owner else "another process"
            raise DirectoryInUse(
                f"{who} runs a cluster in {self.directory}: end it (`kubelocal down --directory "
                f"{self.directory}`) or use another directory"
            ) from None
        self._lock = lock

    def is_ours(self) -> bool:
        """Whether the directory is there and was made by a cluster."""
        return (self.directory / _MARKER).exists()

    def _claim_folder(self) -> None:
        if self.directory.exists() and not self.is_ours() and any(self.directory.iterdir()):
            raise UsageError(
                f"{self.directory} holds something that is not a kubelocal cluster and would be "
                "removed: name an empty or new directory"
            )
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.directory / _MARKER).touch()
        self.records.folder.mkdir(exist_ok=True)

    def _empty(self) -> None:
        for name in _PARTS:
            shutil.rmtree(self.part(name), ignore_errors=True)
            self.part(name).mkdir(mode=0o700)
        self.kubeconfig.unlink(missing_ok=True)

    def owner(self) -> Identity | None:
        """Give the process that owns the directory; None where none lives."""
        return self.records.living().get(_OWNER)

    def clear(self) -> tuple[str, ...]:
        """End what a dead owner, or one that has left, lets run here; give the names.

        Raises DirectoryInUse where the owner lives.
        """
        if not self.is_ours():
            return ()
        self._take_lock()
        try:
            return self.end_leftovers()
        finally:
            self.release()

    def end_leftovers(self, grace: float = 5.0) -> tuple[str, ...]:
        """End the recorded processes that still run, the API server before etcd; give their names.

        Only those: a pid that belongs to somebody else by now is left alone.
        """
        living = {n: who for n, who in self.records.living().items() if n != _OWNER}
        for name in sorted(living, key=_stop_rank):
            end(living[name], grace)
        for path in self.records.folder.glob("*.json"):
            if path.stem != _OWNER:
                self.records.forget(path.stem)
        return tuple(living)

    def release(self) -> None:
        """Own the directory no longer. Idempotent."""
        if self._lock is not None:
            self.records.forget(_OWNER)
            self._lock.close()
            self._lock = None


def _stop_rank(name: str) -> int:
    return {"kube-apiserver": 1, "etcd": 2}.get(name, 0)
