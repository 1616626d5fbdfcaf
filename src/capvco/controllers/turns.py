"""Whose turn it is to be asked something that no list tells; pure.

Such a question is about one machine alone. So that what a pool costs at rest does not grow with its
size, all machines together share a number of questions a minute, and each is asked less and less
often.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from capvco.runtime.kinds import Key

BUDGET = 10
"""Questions a minute, to all machines together; half of them for machines not asked before."""
_MINUTE = 60.0
_FIRST, _LONGEST = 60.0, 3600.0
"""Seconds between two questions to one machine: at first, doubled each time, and at most."""


class _Turn(NamedTuple):
    """The last turn of a machine."""

    at: float
    since: float
    wait: float
    """Seconds until the next one."""


@dataclass
class Turns:
    """The turns of all machines. ``since`` tells a machine's lives apart: each begins anew."""

    _last: dict[Key, _Turn] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)
    """When the turns of the last minute were."""

    def due(self, machine: Key, since: float, now: float) -> bool:
        """Say whether a machine may be asked now."""
        last = self._of(machine, since)
        while self._recent and now - self._recent[0] >= _MINUTE:
            self._recent.popleft()
        if last is None:
            return len(self._recent) < BUDGET
        return now - last.at >= last.wait and len(self._recent) < BUDGET // 2

    def taken(self, machine: Key, since: float, now: float) -> None:
        """Take note of a question, and forget machines that have not come again."""
        last = self._of(machine, since)
        wait = min(2 * last.wait, _LONGEST) if last else _FIRST
        kept = {key: turn for key, turn in self._last.items() if now - turn.at < 2 * _LONGEST}
        self._last = kept | {machine: _Turn(now, since, wait)}
        self._recent.append(now)

    def _of(self, machine: Key, since: float) -> _Turn | None:
        last = self._last.get(machine)
        return last if last and last.since == since else None
