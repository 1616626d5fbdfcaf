"""Texts for a terminal: clean, in columns. Pure, but for the console itself."""

from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

_GAP = "   "


def clean(text: str) -> str:
    """Return a text of the platform's without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def columns(
    titles: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()
) -> Text:
    """Align cells as kubectl does: never folded or cut off, since ids are there to be copied."""
    lines = [[clean(cell) for cell in line] for line in (titles, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    shown = ("bold", *(styles or [""] * len(rows)))
    return Text("\n").join(
        Text(_GAP.join(map(set_cell_size, line, widths)).rstrip(), style=style)
        for line, style in zip(lines, shown, strict=True)
    )


def console(stream: TextIO) -> Console:
    """Return a console that takes every text as it is."""
    return Console(file=stream, markup=False, highlight=False, emoji=False)
