"""The simulator behind the client, started once, and clean before and after every test."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.settings import ClientSettings
from tests.support.simulator import Simulator, running_simulator
from vcosim.control import Control
from vcosim.stock import WORLD

FAST = ClientSettings(rate=10_000, burst=10_000)
TIMED = (
    *("reserve", "attach", "detach", "vgpu_delete"),
    *("deploy", "start", "stop", "delete", "restore"),
    *("cloudspace", "image", "agent"),
)
NO_TIME: dict[str, object] = {f"{action}_seconds": 0 for action in TIMED}


@dataclass
class Site:
    """A client, and the simulator that it speaks to."""

    vco: VCO
    simulator: Simulator

    @property
    def control(self) -> Control:
        """The simulator's control port."""
        return self.simulator.control

    def credentials(self, **changes: str) -> Credentials:
        """Make credentials as a Secret would hold them."""
        return self.simulator.credentials(**changes)


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Start a simulator for the whole session."""
    with running_simulator(tmp_path_factory.mktemp("vcosim"), quick=False) as running:
        yield running


@pytest.fixture
async def site(simulator: Simulator) -> AsyncIterator[Site]:
    """Give a fresh world with everything done at once; afterwards nobody broke the description."""
    control = simulator.control
    defaults = control.switches()
    control.set(**NO_TIME)
    control.reset(WORLD)
    async with VCO.open(simulator.credentials(), settings=FAST) as vco:
        yield Site(vco, simulator)
    breaches = control.breaches()
    control.set(**defaults)
    control.reset(WORLD)
    assert not breaches, breaches
