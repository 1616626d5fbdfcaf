"""The whole life of a GPU machine, with something going wrong on the way; and what must hold."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kubelocal import LocalCluster
from tests.support.kubeproxy import KubeProxy
from tests.support.scenario import LOCATION, Scenario
from tests.support.simulator import Simulator, running_simulator
from vcosim.control import Action, When

AT_ONCE = 4
"""Lives lived at a time: the machine has few cores, and every life waits most of its time."""


class Trouble(Protocol):
    """What goes wrong in a life."""

    def arm(self, scenario: Scenario) -> None:
        """Prepare it, before the manager starts."""

    def struck(self, scenario: Scenario) -> bool:
        """Say whether it has happened."""

    def disarm(self, scenario: Scenario) -> None:
        """Take it away."""


@dataclass(frozen=True)
class CloudTrouble:
    """Something happens to the ``nth`` mutating call to the cloud."""

    action: Action
    nth: int

    def arm(self, scenario: Scenario) -> None:
        """Add the fault."""
        control = scenario.simulator.control
        control.clear_calls()
        control.faults.add(self.action, when=When(mutating_nth=self.nth))

    def struck(self, scenario: Scenario) -> bool:
        """Ask the simulator."""
        return any(armed.fired for armed in scenario.simulator.control.faults.list())

    def disarm(self, scenario: Scenario) -> None:
        """Remove the fault."""
        scenario.simulator.control.faults.clear()


@dataclass(frozen=True)
class WriteTrouble:
    """The answer to the ``nth`` write to Kubernetes never comes, though it was carried out."""

    proxy: KubeProxy
    nth: int

    def arm(self, scenario: Scenario) -> None:
        """Put the proxy between manager and API server."""
        scenario.server = self.proxy.url
        self.proxy.nth = self.nth

    def struck(self, scenario: Scenario) -> bool:
        """Ask the proxy."""
        del scenario
        return self.proxy.struck

    def disarm(self, scenario: Scenario) -> None:
        """Let everything pass."""
        del scenario
        self.proxy.nth = 0


@dataclass(frozen=True)
class Life:
    """One life: how many GPUs, what goes wrong, and whether the manager dies (-9) of it."""

    name: str
    count: int
    trouble: Trouble
    kill: bool = False


@dataclass(frozen=True)
class Lived:
    """How a life went: whether its trouble came, and what must not have happened but did."""

    life: Life
    struck: bool
    wrong: str = ""


def live_all(cluster: LocalCluster, folder: Path, lives: Sequence[Life]) -> list[Lived]:
    """Live several lives side by side."""

    def one(life: Life) -> Lived:
        try:
            return Lived(life, live(cluster, folder / life.name, life))
        except AssertionError as error:
            return Lived(life, struck=True, wrong=f"{life.name}: {error}")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, lives))


def wrongs(lived: Sequence[Lived]) -> str:
    """Return what went wrong, all of it; empty if nothing did."""
    return "\n\n".join(one.wrong for one in lived if one.wrong)


def live(cluster: LocalCluster, folder: Path, life: Life) -> bool:
    """Provision a machine and delete everything; say whether the trouble came.

    Raises AssertionError if money is at stake.
    """
    (folder / "cloud").mkdir(parents=True)
    with (
        running_simulator(folder / "cloud") as simulator,
        Scenario.open(cluster, simulator, folder) as scenario,
    ):
        foreign = _foreign(simulator)
        life.trouble.arm(scenario)
        scenario.start_manager()
        scenario.put_cluster()
        scenario.put_machine("worker", gpu={"type": "NVIDIA A100", "count": life.count})
        watch = _Watch(scenario, life)
        watch.until("the machine", lambda: scenario.running("worker"))
        check_provisioned(scenario, life.count)
        scenario.delete("clusters", "demo")
        watch.until("the end", lambda: scenario.gone("clusters", "demo"))
        check_gone(scenario, foreign)
        assert scenario.made == life.count + 1, f"{scenario.made - 1} reservations were made"
        return watch.struck


@dataclass
class _Watch:
    """Waits for the steps of a life, and does what it says when the fault strikes."""

    scenario: Scenario
    life: Life
    struck: bool = False

    def until(self, what: str, done: Callable[[], bool]) -> None:
        """Wait; on the first strike of a deadly fault kill the manager and start another."""

        def look() -> bool:
            self._look()
            return done()

        self.scenario.until(what, look, seconds=90)
        self._look()

    def _look(self) -> None:
        if self.struck or not self.life.trouble.struck(self.scenario):
            return
        self.struck = True
        if self.life.kill:
            self.scenario.kill_manager()
            self.life.trouble.disarm(self.scenario)
            self.scenario.start_manager()


def _foreign(simulator: Simulator) -> str:
    """Put a stranger's reservation beside ours, under a name that looks like ours."""
    hand = simulator.control.hand
    card = next(c for c in simulator.control.cards.list(LOCATION) if c.model.startswith("L4 "))
    return hand.add_vgpu(simulator.customer_id, LOCATION, card.id, "capvco-worker-gpu-9")


def check_provisioned(scenario: Scenario, count: int) -> None:
    """One VM, exactly ``count`` reservations beside the stranger's, all recorded and attached."""
    status = scenario.vco_machine("worker")["status"]
    rows = [r for r in scenario.simulator.control.ledger().rows if r.released_at is None]
    recorded = {gpu["vgpuId"] for gpu in status["gpus"]}
    ours = {row.vgpu_id for row in rows} - {
        row.vgpu_id for row in rows if row.name == "capvco-worker-gpu-9"
    }
    assert len(ours) == count, f"{len(ours)} reservations are held, {count} wanted"
    assert ours == recorded, f"held {ours}, recorded {recorded}"
    assert all(gpu["attached"] for gpu in status["gpus"]), f"not all attached: {status['gpus']}"
    assert scenario.vm_names() == ["worker"], f"VMs: {scenario.vm_names()}"


def check_gone(scenario: Scenario, foreign: str) -> None:
    """Nothing is held but the stranger's reservation, and that was never touched."""
    control = scenario.simulator.control
    rows = [r for r in control.ledger().rows if r.released_at is None]
    assert [r.vgpu_id for r in rows] == [foreign], f"still held: {rows}"
    assert scenario.vm_names() == [], f"VMs left: {scenario.vm_names()}"
    touched = [c for c in control.calls(mutating=True) if foreign in c.path]
    assert not touched, f"the stranger's vGPU was touched: {touched}"
    assert not control.breaches(), f"{control.breaches()}"
