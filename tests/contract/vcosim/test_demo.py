"""What the demo reads from the simulator's control port."""

import httpx2

from capvco.cli.demo.story import first_guest
from tests.contract.vcosim.test_control import make_vm
from tests.support.simulator import Simulator


def test_the_user_data_of_a_guest(simulator: Simulator) -> None:
    """The document as the VM got it, with the VM's name."""
    with httpx2.Client(base_url=simulator.url, headers=simulator.headers) as http:
        make_vm(http)
    with httpx2.Client(base_url=simulator.control_url) as control:
        assert first_guest(control) == ("a", {"runcmd": ["true"]})
