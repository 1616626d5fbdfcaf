"""What is being done and how long it will still take, on a terminal or in a log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichBar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console


class Progress:
    """Receives what happens; this one keeps quiet, the others show it.

    `plan` names what will be made and its nominal seconds; `advance` says which part of one is
    done. May be called from any thread.
    """

    def say(self, text: str) -> None:
        """Show a line."""

    def plan(self, seconds: Mapping[str, float]) -> None:
        """Announce what is going to be made."""

    def advance(self, name: str, part: float) -> None:
        """Note that of `name` the part between 0 and 1 is done."""

    def close(self) -> None:
        """Give the terminal back. Idempotent."""


@dataclass
class Estimate:
    """How much of the work is done, and how long the rest takes at the speed seen so far."""

    started: float
    seconds: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)

    def plan(self, seconds: Mapping[str, float]) -> None:
        """Add work."""
        self.seconds.update(seconds)

    def advance(self, name: str, part: float) -> None:
        """Note what is done of one; never goes back."""
        self.parts[name] = max(self.parts.get(name, 0.0), min(part, 1.0))

    @property
    def total(self) -> float:
        """Nominal seconds of everything."""
        return sum(self.seconds.values())

    @property
    def done(self) -> float:
        """Nominal seconds of what is done."""
        return sum(self.seconds[name] * self.parts.get(name, 0.0) for name in self.seconds)

    def left(self, now: float) -> float:
        """Seconds still to go: nominal ones first, then more and more by the speed seen."""
        if not self.done:
            return self.total
        speed = self.done / max(now - self.started, 0.001)
        trust = min(self.done / 20.0, 1.0)
        return (self.total - self.done) * (trust / speed + 1.0 - trust)


class PlainProgress(Progress):
    """Lines for a log or a pipe: one for what is said, one each 15 s, one for what is done."""

    def __init__(
        self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._estimate = Estimate(clock())
        self._last = clock()

    def say(self, text: str) -> None:
        """Write the line."""
        self._write(text)

    def plan(self, seconds: Mapping[str, float]) -> None:
        """Start a new estimate."""
        self._estimate = Estimate(self._clock(), dict(seconds))
        self._last = self._clock()

    def advance(self, name: str, part: float) -> None:
        """Write a line where the last one is old enough, or the thing is done."""
        self._estimate.advance(name, part)
        now = self._clock()
        if part < 1 and now - self._last < 15:  # noqa: PLR2004 - a log needs no more lines
            return
        self._last = now
        state = "done" if part >= 1 else f"{part:.0%}"
        self._write(f"  {name}: {state} ({_left(self._estimate.left(now))} in all)")


class RichProgress(Progress):
    """One bar for all there is to do, with what is being made now and the time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._estimate = Estimate(clock())
        self._bar: RichBar | None = None
        self._task = TaskID(0)

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._console.print(text, highlight=False, markup=False)

    def plan(self, seconds: Mapping[str, float]) -> None:
        """Show a bar for this work."""
        self.close()
        self._estimate = Estimate(self._clock(), dict(seconds))
        self._bar = RichBar(
            TextColumn("{task.fields[what]:<34}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._estimate.total, what="", left="")
        self._bar.start()

    def advance(self, name: str, part: float) -> None:
        """Move the bar."""
        self._estimate.advance(name, part)
        if self._bar is not None:
            left = _left(self._estimate.left(self._clock()))
            self._bar.update(self._task, completed=self._estimate.done, what=name, left=left)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def for_console(console: Console) -> Progress:
    """Choose the bar on a terminal, plain lines elsewhere."""
    if console.is_terminal:
        return RichProgress(console)
    return PlainProgress(lambda text: console.print(text, highlight=False, markup=False))


def _left(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest:02d} s left" if minutes else f"about {rest} s left"
