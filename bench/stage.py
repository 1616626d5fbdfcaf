"""Everything that runs during a benchmark: control plane, cloud, manager."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2

from bench import counters, objects, processes
from bench.cloud import Cloud, switches, world
from bench.install import install_alone, install_with_capi
from bench.kube import Kube
from bench.results import Phase
from bench.timeline import Timeline
from kubelocal import LocalCluster, Options
from kubelocal.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MANAGER = "capvco"
_QUIET_SECONDS = 1.0
_WORDS = 15


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the parts run."""

    vgpus: int
    """Room in the cloud."""
    per_card: int
    call_seconds: float
    """How long a changing call to the cloud takes."""
    flags: dict[str, str]
    """Flags of the manager, without the leading dashes."""
    profile: Path | None = None
    """Where the manager's profile goes, if it is profiled."""


@dataclass(frozen=True)
class Look:
    """All counters at one moment."""

    at: float
    processes: dict[str, processes.Sample]
    routes: dict[counters.Route, int]
    requests: dict[str, int]


@dataclass
class Stage:
    """A running benchmark."""

    cluster: LocalCluster
    cloud: Cloud
    kube: Kube
    setting: Setting
    timeline: Timeline = field(default_factory=Timeline)
    _metrics: str = ""

    @classmethod
    @contextmanager
    def open(cls, directory: Path, setting: Setting, *, capi: bool) -> Iterator[Stage]:
        """Start everything but the manager; with ``capi`` also Cluster API's own managers."""
        with LocalCluster(Options(directory=directory, capi=capi)) as cluster:
            (install_with_capi if capi else install_alone)(cluster)
            pace = switches(setting.call_seconds)
            cloud = Cloud.start(cluster, world(setting.vgpus, setting.per_card), pace)
            with Kube(cluster) as kube:
                for secret in objects.secrets(cloud.credentials()):
                    kube.create(objects.path("secrets"), secret)
                yield cls(cluster, cloud, kube, setting)

    def start_manager(self) -> None:
        """Start the manager with its ServiceAccount's rights; returns when it is ready."""
        path = self.cluster.directory / "kubeconfigs" / "manager"
        self.cluster.service_account_kubeconfig("capvco-system", "capvco-manager", path)
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self._metrics = f"http://{address}/metrics"
        profiled = self.setting.profile
        how = ["-m", "cProfile", "-o", str(profiled)] if profiled else []
        flags = self.setting.flags | {
            "kubeconfig": str(path),
            "health-addr": address,
            "diagnostics-address": address,
        }
        command = [sys.executable, *how, "-m", "capvco"]
        command += [f"--{name}={value}" for name, value in flags.items()]
        ready = f"http://{address}/readyz"
        self.cluster.run(_MANAGER, command, ready=lambda: _answers(ready))

    def end_manager(self) -> None:
        """End the manager, which writes its profile, if it has one."""
        self.cluster.end(_MANAGER)

    def last_words(self) -> str:
        """Return the end of the manager's log."""
        log = self.cluster.directory / "logs" / f"{_MANAGER}.log"
        return "\n".join(["The manager's last words:", *log.read_text().splitlines()[-_WORDS:]])

    def watch_machines(self) -> None:
        """Let the timeline follow all VCOMachines from now on."""
        rounds = self.kube.rounds(objects.path("vcomachines"))
        threading.Thread(target=self.timeline.follow, args=(rounds,), daemon=True).start()

    def look(self) -> Look:
        """Read all counters."""
        running = [(p.name, p.pid) for p in self.cluster.processes]
        metrics = httpx2.get(self._metrics, trust_env=False).raise_for_status().text
        return Look(
            at=time.monotonic(),
            processes=processes.samples([*running, ("this benchmark", os.getpid())]),
            routes=counters.by_route(self.cloud.control.counts()),
            requests=counters.requests(metrics),
        )

    def measure(self, name: str, machines: int, work: Callable[[], object]) -> Phase:
        """Do a piece of work and say what it took, the writes that trail behind it included."""
        before = self.look()
        work()
        seconds = time.monotonic() - before.at
        after = self._settled()
        return Phase(
            name=name,
            machines=machines,
            seconds=round(seconds, 2),
            processes=processes.used(before.processes, after.processes),
            cloud=counters.calls(before.routes, after.routes),
            kubernetes=counters.difference(before.requests, after.requests),
        )

    def _settled(self) -> Look:
        """Look again and again until the manager has asked nothing more of Kubernetes."""
        looks = [self.look()]
        while len(looks) == 1 or looks[-1].requests != looks[-2].requests:
            time.sleep(_QUIET_SECONDS)
            looks.append(self.look())
        return looks[-2]


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2, trust_env=False).is_success
    except httpx2.HTTPError:
        return False
