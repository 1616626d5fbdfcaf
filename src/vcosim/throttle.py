"""A limit on the calls per second of each client."""

from vcosim.simulation import Simulation


class ThrottledError(Exception):
    """Too many calls; try again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many requests, {seconds} s to wait")
        self.seconds = seconds


class Throttle:
    """A token bucket per client, one second deep, at the rate of the switch."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._buckets: dict[str, tuple[float, float]] = {}

    def enter(self, client: str) -> None:
        """Let a call in; raises ThrottledError when the client's bucket is empty."""
        rate = self._simulation.switches.requests_per_second
        if rate <= 0:
            return
        now = self._simulation.clock.now()
        depth = max(1.0, rate)
        level, at = self._buckets.get(client, (depth, now))
        level = min(depth, level + (now - at) * rate)
        if level < 1.0:
            self._buckets[client] = (level, now)
            raise ThrottledError((1.0 - level) / rate)
        self._buckets[client] = (level - 1.0, now)
