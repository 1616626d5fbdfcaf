"""Where results go (standard output), and what is said along the way (standard error)."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal, TextIO

import msgspec
from rich.console import Console

from capvco.cli.gpucheck import tables
from capvco.cli.gpucheck.holdings import Holding
from capvco.cli.gpucheck.reports import AnyReport
from capvco.cli.texts import clean, console


@dataclass
class Screen:
    """The two streams, and the person at the terminal if there is one."""

    out: TextIO
    err: TextIO
    input: TextIO
    form: Literal["table", "json"] = "table"
    _out: Console = field(init=False)
    _err: Console = field(init=False)

    def __post_init__(self) -> None:
        """Make the consoles."""
        self._out, self._err = console(self.out), console(self.err)

    def show_as(self, form: Literal["table", "json"]) -> None:
        """Choose the form of the results."""
        self.form = form

    def note(self, text: str) -> None:
        """Say something that is not a result."""
        self._err.print("\n".join(map(clean, text.splitlines())), soft_wrap=True)

    def candidates(self, orphans: tuple[Holding, ...]) -> None:
        """Show what is about to be released."""
        self._err.print(tables.holdings(orphans), soft_wrap=True)

    def result(self, report: AnyReport) -> None:
        """Write the result."""
        if self.form == "json":
            document = msgspec.json.format(msgspec.json.encode(report), indent=2)
            self.out.write(document.decode() + "\n")
        else:
            for part in tables.parts(report):
                self._out.print(part, soft_wrap=True)
        for trouble in report.errors:
            self.note(f"error: {trouble.location}: {trouble.cause}")
        self.out.flush()

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""
        return self.input.isatty()

    async def confirmed(self, question: str) -> bool:
        """Ask; only a full "yes" is one. Ctrl-C works meanwhile."""
        self._err.print(f"{question} [yes/no] ", end="")
        loop, typed = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.input.fileno(), typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(self.input.fileno())
        return self.input.readline().strip().lower() == "yes"
