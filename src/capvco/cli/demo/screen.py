"""The demo on a terminal: a table that lives, and above it what happened when."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from capvco.cli.demo.rows import Row, changes

_COLOURS = {"Running": "green", "Deleting": "yellow", "Failed": "red"}


class Screen:
    """Prints lines, and on a terminal keeps a table of the machines below them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._live: Live | None = None
        self._rows: Mapping[str, Row] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.settle()

    def title(self, text: str) -> None:
        """Begin a part of the story."""
        self.settle()
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def say(self, text: str, *, style: str = "") -> None:
        """Print one line with the time since the start."""
        stamp = f"{time.monotonic() - self._began:6.1f} s  "
        self._console.print(Text.assemble((stamp, "dim"), (text, style)), soft_wrap=True)

    def text(self, text: str) -> None:
        """Print a text as it is."""
        self.settle()
        self._console.print(Text(text), soft_wrap=True)

    def show(self, rows: Mapping[str, Row]) -> None:
        """Show the machines as they are now, and a line for each step since the last look."""
        for name, text in changes(self._rows, rows):
            self.say(f"{name:<24} {text}")
        self._rows = rows
        if not self._console.is_terminal:
            return
        if self._live is None:
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(_table(rows), refresh=True)

    def settle(self) -> None:
        """Take the table away; the lines stay."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _table(rows: Mapping[str, Row]) -> Table:
    table = Table("machine", "wanted", "model", "vGPU", "VM", "address", "phase", "reason")
    for name in sorted(rows):
        row = rows[name]
        phase = Text(row.phase, style=_COLOURS.get(row.phase, ""))
        vgpus = ", ".join(row.vgpus)
        table.add_row(name, row.wanted, row.model, vgpus, row.vm, row.address, phase, row.reason)
    return table
