"""A pool of many machines, with something going wrong with every twentieth call all the time."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from tests.chaos.stateful import objects
from tests.chaos.stateful.apiserver import Apiserver
from tests.support.scenario import LOCATION, condition
from tests.support.simulator import Simulator
from vcosim.control import Action, Control, When
from vcosim.ledger import Row

SHARE = 0.05
"""The part of all calls that goes wrong."""
KILL_SECONDS = 30.0
WIDE = {"privateNetwork": "10.10.0.0/16"}
"""A network with addresses for all."""
HANDS = 8
"""Threads that make objects."""
FLAGS = {
    "poll-interval": "0.5s",
    "capacity-interval": "1s",
    "settle-time": "8s",
    "sync-period": "20s",
    "vco-rate": "1000",
    "vco-burst": "1000",
    "vco-concurrency": "32",
    "concurrency": "32",
    "log-level": "warning",
    "health-addr": "0",
    "diagnostics-address": "0",
}
WHAT = (
    Action(kind="lose_before"),
    Action(kind="lose_after"),
    Action(kind="status", status=429, retry_after=1, html=False),
    Action(kind="status", status=500, html=False, committed=True),
    Action(kind="status", status=500),
    Action(kind="status", status=502, committed=True),
    Action(kind="status", status=503),
    Action(kind="status", status=504, committed=True),
    Action(kind="status", status=504),
    Action(kind="slow", seconds=1.0),
    Action(kind="slow", seconds=1.0, committed=True),
    Action(kind="truncate", keep=0.5),
    Action(kind="truncate", keep=0.7, clean=True),
    Action(kind="truncate", keep=0.0, clean=True),
    Action(kind="lag", seconds=1.0),
    Action(kind="partial", location=LOCATION),
)


class Figures(Struct, frozen=True, kw_only=True):
    """What a soak took."""

    machines: int
    up_seconds: float
    down_seconds: float
    kills: int
    calls: int
    faults: int
    made: int
    """Reservations, those of strangers not counted."""

    def __str__(self) -> str:
        return (
            f"{self.machines} machines: up in {self.up_seconds:.0f} s, gone in"
            f" {self.down_seconds:.0f} s, {self.kills} kills, {self.calls} calls to the cloud of"
            f" which {self.faults} went wrong ({self.faults / self.calls:.1%}),"
            f" {self.made} reservations made"
        )


@dataclass
class Soak:
    """A pool, its cloud, and the manager that is killed again and again."""

    kube: Apiserver
    simulator: Simulator
    kubeconfig: Path
    folder: Path
    machines: int
    foreign: set[str] = field(default_factory=set)
    kills: int = 0
    _manager: subprocess.Popen[bytes] | None = None
    _next_kill: float = 0.0

    @property
    def control(self) -> Control:
        """The simulator's control port."""
        return self.simulator.control

    @property
    def names(self) -> list[str]:
        """Names of the machines."""
        return [f"worker-{number:04}" for number in range(self.machines)]

    # --- the manager ---

    @contextmanager
    def managed(self) -> Iterator[None]:
        """Run a manager; none is left at the end."""
        self._start()
        try:
            yield
        finally:
            self._kill()

    def _start(self) -> None:
        command = [sys.executable, "-m", "capvco", f"--kubeconfig={self.kubeconfig}"]
        command += [f"--namespace={self.kube.namespace}"]
        command += [f"--{name}={value}" for name, value in FLAGS.items()]
        with (self.folder / "manager.log").open("ab") as log:
            self._manager = subprocess.Popen(command, stderr=log, stdout=log)
        self._next_kill = time.monotonic() + KILL_SECONDS

    def _kill(self) -> None:
        if self._manager is not None:
            assert self._manager.poll() is None, "the manager ended by itself"
            self._manager.send_signal(signal.SIGKILL)
            self._manager.wait()
            self._manager = None

    def until(self, what: str, done: Callable[[], str], seconds: float) -> float:
        """Wait, killing the manager when it is time; return how long it took.

        ``done`` says what is still missing, and nothing in the end.
        """
        began = time.monotonic()
        while missing := done():
            now = time.monotonic()
            assert now < began + seconds, f"waited in vain for {what}: {missing}"
            if now > self._next_kill:
                self._kill()
                self.kills += 1
                self._start()
            time.sleep(1.0)
        return time.monotonic() - began

    # --- the pool ---

    def prepare(self) -> None:
        """Make a provisioned cluster, strangers beside it, and room for all."""
        for secret in objects.secrets(self.simulator):
            self.kube.create("secrets", secret)
        for card in self.control.cards.list(LOCATION):
            self.control.cards.set(LOCATION, card.id, self.machines)
        first = self.control.cards.list(LOCATION)[0].id
        for name in random.Random(self.machines).sample(self.names, 10):
            made = self.control.hand.add_vgpu(
                self.simulator.customer_id, LOCATION, first, f"capvco-{name}-gpu-0"
            )
            self.foreign.add(made)
        owner = self.kube.create("clusters", objects.cluster())
        self.kube.create("vcoclusters", objects.vco_cluster(owner, cloudspace=WIDE))

    def _cluster_missing(self) -> str:
        found = self.kube.get("vcoclusters", objects.CLUSTER) or {}
        provisioned = found.get("status", {}).get("initialization", {}).get("provisioned")
        return "" if provisioned else str(found.get("status"))

    def trouble(self) -> None:
        """Let things go wrong from now on."""
        for seed, action in enumerate(WHAT):
            when = When(probability=SHARE / len(WHAT), seed=seed)
            self.control.faults.add(action, when=when)

    def bring_up(self) -> float:
        """Make all machines and wait until they run; return the seconds that took."""
        self.until("the cluster", self._cluster_missing, 120)
        status = {"status": {"initialization": {"infrastructureProvisioned": True}}}
        self.kube.merge("clusters", f"{objects.CLUSTER}/status", status)
        began = time.monotonic()
        with ThreadPoolExecutor(HANDS) as hands:
            list(hands.map(self._make, self.names))
        self.until("all machines", self._machines_missing, 1800)
        return time.monotonic() - began

    def _make(self, name: str) -> None:
        owner = self.kube.create("machines", objects.machine(name))
        gpu = {"type": "NVIDIA A100", "count": 1}
        self.kube.create("vcomachines", objects.vco_machine(owner, gpu=gpu))

    def _machines_missing(self) -> str:
        found = self.kube.items("vcomachines")
        reasons = Counter(str(condition(one, "Ready").get("reason")) for one in found)
        whole = reasons == {"Ready": self.machines}
        return "" if whole else str(reasons)

    def take_down(self) -> float:
        """Delete all machines, then the cluster, and wait; return the seconds that took."""
        self.kube.delete("vcomachines")
        took = self.until("the end of all machines", lambda: self._left("vcomachines"), 1800)
        self.kube.delete("vcoclusters")
        self.until("the end of the cluster", lambda: self._left("vcoclusters"), 120)
        return took

    def _left(self, plural: str) -> str:
        left = len(self.kube.items(plural))
        return f"{left} {plural} are left" if left else ""

    # --- what must hold ---

    def check_up(self) -> None:
        """Exactly one VM and one reservation for each machine, the strangers' untouched."""
        held = Counter(row.name.removeprefix("capvco-")[:11] for row in self._held())
        assert held == Counter(self.names), f"not one each: {held - Counter(self.names)}"
        vms = Counter(vm.name for vm in self.control.vms() if vm.status != "DESTROYED")
        assert vms == Counter(self.names), f"not one each: {vms - Counter(self.names)}"
        self._check_foreign()

    def check_gone(self) -> None:
        """Nothing is left but what is not ours; nothing was ever bought twice."""
        assert not self._held()
        assert not [vm for vm in self.control.vms() if vm.status != "DESTROYED"]
        assert not self.control.state().get("cloudspace", [])
        assert self.made == self.machines, f"{self.made} reservations for {self.machines} machines"
        made = self.control.calls(method="POST", mutating=True)
        vms = sum(c.route.endswith("/vms") and c.status == 200 for c in made)
        assert vms == self.machines, f"{vms} VMs for {self.machines} machines"
        self._check_foreign()
        assert not self.control.breaches(), self.control.breaches()

    @property
    def made(self) -> int:
        """How many reservations were made for the machines."""
        return self.control.ledger().totals.made - len(self.foreign)

    def _held(self) -> list[Row]:
        rows = self.control.ledger().rows
        return [r for r in rows if r.released_at is None and r.vgpu_id not in self.foreign]

    def _check_foreign(self) -> None:
        rows = [r for r in self.control.ledger().rows if r.vgpu_id in self.foreign]
        assert all(r.released_at is None and not r.vms for r in rows), rows
        paths = [call.path for call in self.control.calls(mutating=True)]
        touched = [path for path in paths if path.rpartition("/")[2] in self.foreign]
        assert not touched, touched

    def figures(self, up: float, down: float) -> Figures:
        """Return what it took."""
        calls = self.control.calls()
        return Figures(
            machines=self.machines,
            up_seconds=up,
            down_seconds=down,
            kills=self.kills,
            calls=len(calls),
            faults=sum(bool(call.fault) for call in calls),
            made=self.made,
        )


def wanted(default: int) -> int:
    """Return how many machines to make: ``CAPVCO_SOAK_MACHINES``, else the default."""
    return int(os.environ.get("CAPVCO_SOAK_MACHINES", default))
