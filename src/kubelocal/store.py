"""A cache of folders keyed by content: an entry is there whole, or it is not there.

Entries appear by one rename, after everything in them has reached the disk. A lock per key keeps
two processes from making the same entry; the kernel drops it when its holder dies, however it dies,
and the next holder removes what the dead one left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_META: Final = "entry.json"


def default_root(env: Mapping[str, str]) -> Path:
    """Where the cache lies unless told: KUBELOCAL_CACHE, XDG_CACHE_HOME/kubelocal, ~/.cache."""
    if env.get("KUBELOCAL_CACHE"):
        return Path(env["KUBELOCAL_CACHE"])
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kubelocal"


@dataclass(frozen=True)
class Entry:
    """A complete entry: its folder and the facts noted when it was made."""

    key: str
    path: Path
    facts: Mapping[str, str]


class Store:
    """Entries below one folder. Safe to use from several processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: str) -> Entry | None:
        """Return the entry, or None where there is none or a file of it was cut short since."""
        folder = self.root / "entries" / key
        try:
            meta = json.loads((folder / _META).read_bytes())
            sizes = {name: (folder / name).stat().st_size for name in meta["sizes"]}
        except (OSError, ValueError, KeyError):
            return None
        return Entry(key, folder, meta["facts"]) if sizes == meta["sizes"] else None

    def matching(self, prefix: str) -> tuple[Entry, ...]:
        """All complete entries whose key begins so, newest first."""
        folder = self.root / "entries"
        names = sorted(folder.glob(f"{prefix}*"), key=_mtime, reverse=True)
        return tuple(entry for name in names if (entry := self.get(name.name)) is not None)

    @contextlib.contextmanager
    def locked(self, key: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the key's lock; `waiting` is called once if another process has it now."""
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with (locks / f"{key}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waiting is not None:
                    waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def making(self, key: str, facts: Mapping[str, str]) -> Iterator[Path]:
        """Give an empty folder to fill; it becomes the entry when the block ends well.

        Call it with the key locked. Any exception, KeyboardInterrupt included, leaves nothing.
        """
        scratch = self.root / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        for left in scratch.glob(f"{key}.*"):  # a maker that was killed: its lock is ours now
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=scratch))
        try:
            yield folder
            self._publish(folder, key, facts)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, folder: Path, key: str, facts: Mapping[str, str]) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
        meta = folder / _META
        meta.write_text(json.dumps({"facts": dict(facts), "sizes": sizes}, indent=1))
        for path in (*files, meta, folder):
            _sync(path)
        target = self.root / "entries" / key
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # only ever one that `get` refused
        folder.chmod(0o755)
        folder.rename(target)
        _sync(target.parent)

    def clean(self) -> None:
        """Remove everything; entries being made right now by others are theirs to finish."""
        shutil.rmtree(self.root / "entries", ignore_errors=True)
        for left in (self.root / "scratch").glob("*"):
            with self.locked(left.name.rpartition(".")[0]):
                shutil.rmtree(left, ignore_errors=True)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # removed since it was listed
        return 0.0


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
