"""What may be set about the client of a cloud."""

from importlib.metadata import version

import msgspec


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Pace and patience of one client.

    The defaults follow the limits of the platform's lower layer: 20 requests in 5 seconds for one
    user.
    """

    rate: float = 4.0
    """Requests a second, in the long run."""
    burst: int = 20
    """Requests at once, after a rest."""
    concurrency: int = 8
    """Requests in flight; creates, which block for minutes, may take all but two of them."""
    read_seconds: float = 30.0
    write_seconds: float = 120.0
    create_seconds: float = 300.0
    upload_seconds: float = 3600.0
    """For one part of an image; one that does not move at all is given up much earlier."""
    connect_seconds: float = 10.0
    read_tries: int = 3
    read_tries_seconds: float = 10.0
    """No further try of a read begins after this time."""
    pause_patience: float = 10.0
    """Longest pause asked for by the platform that is waited for inside a call."""
    user_agent: str = f"capvco/{version('capvco')}"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not (self.rate > 0 and self.burst >= 1 and self.concurrency >= 1):
            raise ValueError("rate must be above 0, burst and concurrency at least 1")

    @property
    def create_concurrency(self) -> int:
        """How many creates may be in flight: always fewer than everything, if possible."""
        return max(1, self.concurrency - 2)
