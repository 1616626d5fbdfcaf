"""How many machines there are, and how many are provisioned, at every moment: from one watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.results import Point


class _Meta(Struct, frozen=True):
    name: str


class _Initialization(Struct, frozen=True):
    provisioned: bool = False


class _Status(Struct, frozen=True):
    initialization: _Initialization = _Initialization()


class _Object(Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _List(Struct, frozen=True):
    items: tuple[_Object, ...] = ()


Round = tuple[bytes, Iterable[bytes]]
"""A list, and the lines of the watch that follows it."""

_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)
_object = msgspec.json.Decoder(_Object)


class Late(Exception):  # noqa: N818 - an outcome
    """What was waited for did not come in time, or nothing moved for too long."""


class Timeline:
    """The course of all machines. `follow` runs in a thread of its own; `wait` in any other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._changed = threading.Condition()
        self._provisioned: dict[str, bool] = {}
        self._broken: str = ""
        self.points: list[Point] = [(0.0, 0, 0)]

    def follow(self, rounds: Iterable[Round]) -> None:
        """Read list and watch, again and again, as an API server ends watches when it likes.

        An error of either breaks the timeline, and so does the end of the rounds.
        """
        why = "the watch ended"
        try:
            for listed, lines in rounds:
                self._replace(listed)
                for line in lines:
                    self._take(line)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            why = f"the watch broke: {error}"
        with self._changed:
            self._broken = why
            self._changed.notify_all()

    def _replace(self, listed: bytes) -> None:
        found = _list.decode(listed).items
        self._put({o.metadata.name: o.status.initialization.provisioned for o in found})

    def _take(self, line: bytes) -> None:
        event = _event.decode(line)
        if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            raise ValueError(f"unexpected event {line[:300]!r}")
        found = _object.decode(event.object)
        name = found.metadata.name
        provisioned = found.status.initialization.provisioned if event.type != "DELETED" else None
        if self._provisioned.get(name) == provisioned:
            return
        others = {n: p for n, p in self._provisioned.items() if n != name}
        self._put(others if provisioned is None else others | {name: provisioned})

    def _put(self, now: dict[str, bool]) -> None:
        with self._changed:
            if now == self._provisioned:
                return
            self._provisioned = now
            self.points.append((self.now, self.existing, self.provisioned))
            self._changed.notify_all()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return round(self._clock() - self._began, 3)

    @property
    def existing(self) -> int:
        """How many machines there are."""
        return len(self._provisioned)

    @property
    def provisioned(self) -> int:
        """How many of them are provisioned."""
        return sum(self._provisioned.values())

    def wait(self, what: str, done: Callable[[Timeline], bool], *, patience: float) -> float:
        """Return when it is so, and when that was, in seconds since the start.

        Raises Late when nothing at all has moved for ``patience`` seconds, or the watch is broken.
        """
        with self._changed:
            while not done(self):
                moved = bool(self._broken) or self._changed.wait(patience)
                if self._broken or not moved:
                    why = self._broken or f"nothing moved for {patience:.0f} s"
                    raise Late(
                        f"waited for {what}: {why}; {self.existing} machines exist, "
                        f"{self.provisioned} are provisioned"
                    )
            return self.now


def thinned(points: Iterable[Point], step: float) -> tuple[Point, ...]:
    """Keep at most one point per ``step`` seconds, the last of each, and the first."""
    kept: list[Point] = []
    for point in points:
        if len(kept) > 1 and int(kept[-1][0] / step) == int(point[0] / step):
            kept[-1] = point
        else:
            kept.append(point)
    return tuple(kept)
