"""What a person sees while it runs: a bar per location at a terminal, lines elsewhere."""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from capvco.cli.texts import clean, console

_STEP = 10
"""Lines come every so many per cent."""


class Track(Protocol):
    """One location's progress."""

    def at(self, done: int) -> None:
        """So many bytes are done; may fall, when a part is sent again."""

    def phase(self, text: str) -> None:
        """Say what is done now."""

    def say(self, text: str) -> None:
        """Mention something in passing."""


class Tracks(Protocol):
    """All locations' progress; shown from enter to exit."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""

    def track(self, name: str, total: int) -> Track:
        """Add one, of so many bytes."""


@dataclass(frozen=True)
class _Bar:
    progress: Progress
    task: TaskID
    name: str

    def at(self, done: int) -> None:
        self.progress.update(self.task, completed=done)

    def phase(self, text: str) -> None:
        self.progress.update(self.task, phase=clean(text))

    def say(self, text: str) -> None:
        self.progress.console.print(clean(f"{self.name}: {text}"), soft_wrap=True)


class Bars:
    """Bars that move, for a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[phase]}", markup=False),
            console=console(stream),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def track(self, name: str, total: int) -> Track:
        """Add a bar."""
        task = self._progress.add_task(clean(name), total=total, phase="")
        return _Bar(self._progress, task, name)


@dataclass
class _Line:
    stream: TextIO
    name: str
    total: int
    shown: int = field(default=0)

    def at(self, done: int) -> None:
        percent = 100 * done // max(self.total, 1) // _STEP * _STEP
        if percent > self.shown:
            self.shown = percent
            self.say(f"{percent}% of {decimal(self.total)}")

    def phase(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        self.stream.write(f"{clean(f'{self.name}: {text}')}\n")
        self.stream.flush()


class Lines:
    """A line for every tenth, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Have nothing to end."""

    def track(self, name: str, total: int) -> Track:
        """Begin to count."""
        return _Line(self._stream, name, total)
