"""The exit codes of capvco-gpucheck: one number per outcome that a script may act on."""

from enum import IntEnum


class Code(IntEnum):
    """How a run ended; where several hold, the first in the order of ``ORDER`` is taken."""

    FINE = 0
    """Nothing needs a hand."""
    PLATFORM = 1
    """A location could not be asked, or answered oddly: what is shown may be incomplete."""
    USAGE = 2
    """The flags, the credentials or the kubeconfig cannot be used."""
    TYPE_UNAVAILABLE = 3
    """No location that was asked can serve the type and count."""
    ORPHANS = 4
    """Orphans are held, and billed."""
    OWNER_UNKNOWN = 5
    """Of some reservation it cannot be told whose it is: nothing of that kind is ever released."""
    NOT_RELEASED = 6
    """An orphan was to be released and was not, or its absence could not be confirmed."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C; what had been released until then stays released."""


ORDER = (
    Code.USAGE,
    Code.PLATFORM,
    Code.NOT_RELEASED,
    Code.TYPE_UNAVAILABLE,
    Code.ORPHANS,
    Code.OWNER_UNKNOWN,
    Code.FINE,
)


def first(*codes: Code) -> Code:
    """Return the one that counts, FINE if there is none."""
    return min(codes, key=ORDER.index, default=Code.FINE)
