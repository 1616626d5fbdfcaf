"""What every service works with: its waiting times keep what the guide promises."""

from capvco.services.cloud import Cloud, Waits
from capvco.services.inventory import Inventory
from capvco.vco.cloud import VCO
from tests.unit.vco.support import a_client, a_platform


async def test_a_vm_that_vanishes_is_noticed_in_time() -> None:
    """Right after a list was asked for that the next look may still use: within five minutes."""
    vco, now = VCO(a_client(a_platform())), 1000.0
    cloud = Cloud(vco, Inventory(vco), Waits(), clock=lambda: now)
    oldest = now - cloud.recent()
    assert oldest + cloud.waits.resync < 300
