"""What a service says when it is done for now."""

from msgspec import Struct

from capvco.api.conditions import Reason


class Pending(Struct, frozen=True):
    """Not there yet: why, in words, and when to look again."""

    reason: Reason
    message: str
    after: float
    """Seconds until the next look; a change of the object comes earlier."""
    failure: bool = False
    """Whether a person should read this as a failure: it goes to status.failureMessage too."""


def billed(held: int) -> str:
    """Return the end of a message of who waits while vGPUs are held; empty if none is."""
    return f"; {held} vGPU(s) are held and billed meanwhile" if held else ""


class Terminal(Exception):  # noqa: N818 - the architecture's word for "no retry helps"
    """No retry helps until somebody changes something.

    It is still looked at again now and then, since what was changed may lie in the cloud.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep the reason for the condition."""
        super().__init__(message)
        self.reason = reason
        self.message = message
