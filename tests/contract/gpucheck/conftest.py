"""A simulator in its stock world, and the command in front of it."""

import io
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capvco.cli.access import Given, credentials
from capvco.cli.gpucheck.command import execute
from capvco.cli.gpucheck.screen import Screen
from capvco.cli.gpucheck.session import World
from capvco.vco.cloud import VCO
from capvco.vco.settings import ClientSettings
from tests.support.simulator import Simulator
from vcosim.stock import BE

FAST = ClientSettings(rate=10_000, burst=10_000)


@dataclass
class Ran:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.out)
        return found


@dataclass
class Desk:
    """A person's desk: the cloud's credentials in the environment, the command at hand."""

    simulator: Simulator
    while_waiting: Callable[[], None] = lambda: None
    """What happens while the command waits; the wait itself takes no time."""
    elapsed: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "VCO_API_URL": self.simulator.url,
            "VCO_CUSTOMER_ID": self.simulator.customer_id,
            "VCO_CLIENT_ID": self.simulator.client_id,
            "VCO_CLIENT_SECRET": self.simulator.client_secret,
            "VCO_IAM_URL": self.simulator.iam_url,
        }

    def run(self, *tokens: str, environment: Mapping[str, str] | None = None) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        chosen = self.environment if environment is None else environment
        code = execute(
            tokens,
            World(
                environment=chosen,
                clock=self.simulator.control.clock.now,
                elapsed=lambda: self.elapsed,
                sleep=self.wait,
            ),
            Screen(out, err, io.StringIO()),
        )
        return Ran(int(code), out.getvalue(), err.getvalue())

    async def wait(self, seconds: float) -> None:
        """Let time pass, for the simulator as well."""
        self.elapsed += seconds
        self.simulator.control.clock.advance(seconds)
        self.while_waiting()

    def reserve(self, name: str, card: int = 0, location: str = BE) -> str:
        """Reserve a vGPU by hand, as nobody's."""
        hand, customer = self.simulator.control.hand, self.simulator.customer_id
        cards = [c.id for c in self.simulator.control.cards.list(location)]
        return hand.add_vgpu(customer, location, cards[card], name)

    def bin(self, vgpu_id: str, location: str = BE) -> None:
        self.simulator.control.hand.delete_vgpu(self.simulator.customer_id, location, vgpu_id)

    def vm_with(self, *vgpu_ids: str, name: str = "box") -> tuple[str, int]:
        """Make a halted VM by hand and attach vGPUs; return cloudspace and VM id."""
        call, customer = self.simulator.control.hand.call, self.simulator.customer_id
        space = call(
            "POST",
            f"/customers/{customer}/cloudspaces",
            body={
                "name": f"space-of-{name}",
                "location": BE,
                "firewall": {"private": False, "external_network_id": 11},
            },
        ).body["cloudspace_id"]
        vms = f"/customers/{customer}/cloudspaces/{space}/vms"
        vm_id: int = call(
            "POST",
            vms,
            query={
                "name": name,
                "description": "by hand",
                "vcpus": 1,
                "memory": 1024,
                "disk_size": 10,
                "image_id": 201,
                "start_vm": False,
            },
        ).body["vm_id"]
        for vgpu_id in vgpu_ids:
            call("POST", f"{vms}/{vm_id}/vgpus/{vgpu_id}")
        return space, vm_id

    @property
    def held(self) -> int:
        """What the simulator's ledger says is held, and billed."""
        return self.simulator.control.ledger().totals.held

    def held_ids(self) -> set[str]:
        rows = self.simulator.control.ledger().rows
        return {row.vgpu_id for row in rows if row.released_at is None}


@pytest.fixture
def desk(simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Give a desk without any kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return Desk(simulator)


@pytest.fixture
async def vco(desk: Desk) -> AsyncIterator[VCO]:
    """Speak to the simulator as the desk's customer."""
    async with VCO.open(credentials(Given(), desk.environment), settings=FAST) as opened:
        yield opened
