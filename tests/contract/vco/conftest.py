"""The simulator behind the client, started once, and clean before and after every test."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.settings import ClientSettings
from vcosim.control import Control
from vcosim.server import Address, InThread, Options
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
    """A client, the simulator's control port, and where all that is."""

    vco: VCO
    control: Control
    address: Address
    defaults: dict[str, object]

    def credentials(self, **changes: str) -> Credentials:
        """Make credentials as a Secret would hold them."""
        data = {
            "apiURL": self.address.url,
            "customerID": self.address.customer_id,
            "clientID": self.address.client_id,
            "clientSecret": self.address.client_secret,
            "iamURL": self.address.iam_url,
        }
        values = {key: value.encode() for key, value in (data | changes).items()}
        return Credentials.from_secret(values)


@pytest.fixture(scope="session")
def simulator() -> Iterator[Address]:
    """Start a simulator for the whole session."""
    running = InThread(Options())
    yield running.start()
    running.stop()


@pytest.fixture
async def site(simulator: Address) -> AsyncIterator[Site]:
    """Give a fresh world with everything done at once; afterwards nobody broke the description."""
    with Control(simulator.control_url) as control:
        defaults = control.switches()
        control.set(**NO_TIME)
        control.reset(WORLD)
        unopened = Site(None, control, simulator, defaults)  # type: ignore[arg-type] # filled below
        async with VCO.open(unopened.credentials(), settings=FAST) as vco:
            yield Site(vco, control, simulator, defaults)
        breaches = control.breaches()
        control.set(**defaults)
        control.reset(WORLD)
    assert not breaches, breaches
