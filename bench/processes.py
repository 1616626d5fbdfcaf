"""CPU and memory of processes, as /proc has them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.results import ProcessUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME = 11
"""Place of utime in /proc/PID/stat, counted after the command's name; stime follows."""
_KIB = 1024


@dataclass(frozen=True)
class Sample:
    """What a process has used since its start."""

    cpu_seconds: float
    rss_mib: float
    peak_mib: float


def cpu_seconds(stat: str) -> float:
    """Read user and system time from the text of /proc/PID/stat."""
    # The name in parentheses may hold blanks and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_UTIME + 1])) / _TICKS


def memory_mib(status: str) -> tuple[float, float]:
    """Read resident memory, now and at most, from the text of /proc/PID/status."""
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    now, most = (int(lines[name].split()[0]) / _KIB for name in ("VmRSS", "VmHWM"))
    return now, most


def sample(pid: int) -> Sample:
    """Look at a process that runs; raises FileNotFoundError if there is none."""
    folder = Path("/proc") / str(pid)
    now, most = memory_mib((folder / "status").read_text())
    return Sample(cpu_seconds((folder / "stat").read_text()), now, most)


def used(before: Mapping[str, Sample], after: Mapping[str, Sample]) -> tuple[ProcessUse, ...]:
    """Compare two looks; a process that started in between has used all of its time since."""
    return tuple(_use(name, before.get(name), after[name]) for name in after)


def _use(name: str, before: Sample | None, after: Sample) -> ProcessUse:
    earlier = before.cpu_seconds if before else 0.0
    return ProcessUse(
        name=name,
        cpu_seconds=round(after.cpu_seconds - earlier, 2),
        rss_mib=round(after.rss_mib, 1),
        peak_mib=round(after.peak_mib, 1),
    )


def samples(pids: Iterable[tuple[str, int]]) -> dict[str, Sample]:
    """Look at processes by name."""
    return {name: sample(pid) for name, pid in pids}
