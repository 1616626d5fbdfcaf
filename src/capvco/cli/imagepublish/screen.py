"""Where results go (standard output), and what is said along the way (standard error)."""

from dataclasses import dataclass
from typing import Literal, TextIO

import msgspec
from rich.text import Text

from capvco.cli.imagepublish.progress import Bars, Lines, Tracks
from capvco.cli.imagepublish.reports import Report
from capvco.cli.texts import clean, columns, console


@dataclass
class Screen:
    """The two streams."""

    out: TextIO
    err: TextIO
    form: Literal["table", "json"] = "table"

    def show_as(self, form: Literal["table", "json"]) -> None:
        """Choose the form of the result."""
        self.form = form

    def note(self, text: str) -> None:
        """Say something that is not a result."""
        self.err.write("\n".join(map(clean, text.splitlines())) + "\n")
        self.err.flush()

    def tracks(self) -> Tracks:
        """Return what shows progress: bars if somebody is watching, else lines."""
        return Bars(self.err) if self.err.isatty() else Lines(self.err)

    def result(self, report: Report) -> None:
        """Write the result."""
        if self.form == "json":
            document = msgspec.json.format(msgspec.json.encode(report), indent=2)
            self.out.write(document.decode() + "\n")
        else:
            console(self.out).print(table(report), soft_wrap=True)
        self.out.flush()


def table(report: Report) -> Text:
    """Return the result as a table."""
    rows = [
        (one.location, "-" if one.image_id is None else str(one.image_id), one.outcome, one.detail)
        for one in report.results
    ]
    return columns(("LOCATION", "IMAGE ID", "OUTCOME", "DETAIL"), rows)
