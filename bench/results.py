"""What a benchmark run found, as frozen values that are written as JSON."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

Point = tuple[float, int, int]
"""Seconds since the start; machines that exist; machines that are provisioned."""


class ProcessUse(Struct, frozen=True, kw_only=True):
    """What one process used in a phase."""

    name: str
    cpu_seconds: float
    rss_mib: float
    """Resident memory at the end of the phase."""
    peak_mib: float
    """Most resident memory since the process started."""


class CloudCalls(Struct, frozen=True, kw_only=True):
    """What the manager asked of the cloud in a phase."""

    gpu: int
    other: int
    mutating: int
    by_route: dict[str, int]


class Phase(Struct, frozen=True, kw_only=True):
    """One measured stretch of a run."""

    name: str
    machines: int
    seconds: float
    processes: tuple[ProcessUse, ...]
    cloud: CloudCalls
    kubernetes: dict[str, int]
    """Requests of the manager to the API server by method."""

    @property
    def writes(self) -> int:
        """How many requests of the manager changed something in Kubernetes."""
        return sum(count for method, count in self.kubernetes.items() if method != "GET")


class Run(Struct, frozen=True, kw_only=True):
    """One run: machines that came, stayed and went."""

    what: str
    machines: int
    phases: tuple[Phase, ...]
    series: tuple[Point, ...]
    held: int
    """Reservations still held at the end: must be 0."""
    breaches: int
    """Requests outside the cloud's description: must be 0."""


class Machine(Struct, frozen=True, kw_only=True):
    """The computer of the benchmark, and how busy it was with other things before."""

    cores: int
    load: float
    """Load average of the last minute before the first run."""


class Report(Struct, frozen=True, kw_only=True):
    """Everything of one call of the benchmark."""

    at: str
    machine: Machine
    flags: dict[str, str]
    switches: dict[str, str]
    profiled: bool
    runs: tuple[Run, ...]


def this_machine() -> Machine:
    """Describe this computer."""
    return Machine(cores=os.cpu_count() or 1, load=round(os.getloadavg()[0], 2))


def today() -> str:
    """Return the time now in UTC, as a result says it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(report: Report, path: Path) -> None:
    """Write a report as readable JSON; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(report), indent=1)
    path.write_bytes(text + b"\n")


def read(path: Path) -> Report:
    """Read a report; raises msgspec.ValidationError for a file that is none."""
    return msgspec.json.decode(path.read_bytes(), type=Report)
