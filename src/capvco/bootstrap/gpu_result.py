"""The one line that the GPU step leaves on a node: how it ended, and why."""

import re

from msgspec import Struct

RESULT_FILE = "/var/lib/capvco/gpu.status"
"""Where the line is kept; /run/capvco/gpu.status has it too, until the next boot."""
RESULT_LIMIT = 2048
"""Bytes of it that are worth reading."""

_LINE = re.compile(
    r"(?P<word>ok|failed) (?P<step>[a-z]+) (?P<cause>[A-Za-z]+|-)"
    r" branch=(?P<branch>[0-9]+|-) cards=(?P<cards>[0-9]+) bus=(?P<bus>[0-9]+)"
    r"(?:: (?P<words>.*))?"
)


class GPUResult(Struct, frozen=True, kw_only=True):
    """How the GPU step ended."""

    ok: bool
    step: str
    cause: str
    """One word, such as ForeignDriverBound; empty if all is well."""
    branch: str
    """The driver branch that is loaded; empty if none is."""
    cards: int
    """How many cards the driver shows."""
    bus: int
    """How many cards the PCI bus shows."""
    words: str
    """What went wrong, and what to do."""


def parse(content: bytes) -> GPUResult | None:
    """Read the line; None for anything else, since what is on a node may be anything."""
    text = content.decode(errors="replace").partition("\n")[0]
    found = _LINE.fullmatch("".join(c for c in text if c.isprintable()))
    if found is None:
        return None
    return GPUResult(
        ok=found["word"] == "ok",
        step=found["step"],
        cause=found["cause"].strip("-"),
        branch=found["branch"].strip("-"),
        cards=int(found["cards"]),
        bus=int(found["bus"]),
        words=found["words"] or "",
    )
