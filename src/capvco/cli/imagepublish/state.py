"""What is kept on disk, so that an interrupted run can be continued by the same command."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from capvco.cli.unusable import Unusable


class State(Struct, frozen=True, kw_only=True):
    """How far a publication is. Nothing in it is secret."""

    upload_id: str = ""
    object_name: str = ""
    part_size: int = 0
    parts: dict[int, str] = {}
    """Tags of the parts that the platform has, by number."""
    before: tuple[int, ...] | None = None
    """Set before the upload is ended: the images that had the name until then."""
    image_id: int | None = None
    done: bool = False
    """Whether the image was seen to be usable."""


NOTHING = State()


class Busy(Exception):  # noqa: N818 - reads as what is the case
    """Another run publishes the same file under the same name in the same location."""


@dataclass(frozen=True)
class Slot:
    """The state of one publication; held by one run at a time."""

    path: Path

    def load(self) -> State:
        """Read it; what cannot be read counts as nothing, since a new upload does no harm."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=State)
        except (OSError, msgspec.DecodeError):
            return NOTHING

    def save(self, state: State) -> State:
        """Replace it, wholly or not at all; returns it."""
        beside = self.path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(state))
        beside.replace(self.path)
        return state

    def clear(self) -> State:
        """Forget it; returns the empty state."""
        self.path.unlink(missing_ok=True)
        return NOTHING


@dataclass(frozen=True)
class States:
    """The folder of all states."""

    folder: Path

    @contextmanager
    def slot(self, *what: str) -> Iterator[Slot]:
        """Hold the slot of what these texts name together. Raises Busy and Unusable."""
        key = hashlib.sha256("\0".join(what).encode()).hexdigest()[:32]
        with self._lock(self.folder / f"{key}.lock"):
            yield Slot(self.folder / f"{key}.json")

    @contextmanager
    def _lock(self, path: Path) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unusable(
                f"the state of uploads cannot be kept in {self.folder}: {error.strerror};"
                " name another folder by --state-dir"
            ) from error
        try:
            _take(descriptor)
            yield
        finally:
            # Closing ends the lock; the file stays, since to remove it would race with others.
            os.close(descriptor)


def _take(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy("another run is publishing this file under this name here") from None


def folder(environment: Mapping[str, str], chosen: Path | None) -> Path:
    """Say where states are kept: as chosen, else as the XDG rules have it."""
    if chosen is not None:
        return chosen
    home = environment.get("XDG_STATE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "capvco" / "imagepublish"
