"""The exit codes of capvco-imagepublish: one number per outcome that a script may act on."""

from enum import IntEnum


class Code(IntEnum):
    """How a run ended; where several hold, the first in the order of ``ORDER`` is taken."""

    FINE = 0
    """Every location has the image, ready for use."""
    FAILED = 1
    """Some location has not got it; the same command goes on where this one ended."""
    USAGE = 2
    """The flags, the file or the credentials cannot be used."""
    DUPLICATE = 3
    """An image of that name exists already, so nothing was uploaded there."""
    NOT_READY = 4
    """Uploaded, but not usable within the time limit; the same command waits on."""
    IMPORT_FAILED = 5
    """The platform could not make a proper image of it; what it made was removed."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C; the same command goes on where this one ended."""


ORDER = (
    Code.USAGE,
    Code.FAILED,
    Code.IMPORT_FAILED,
    Code.NOT_READY,
    Code.DUPLICATE,
    Code.FINE,
)


def first(*codes: Code) -> Code:
    """Return the one that counts, FINE if there is none."""
    return min(codes, key=ORDER.index, default=Code.FINE)
