from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulator import Simulator, running_simulator


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Simulator]:
    """A simulator with the stock world, of which no answer was outside the description."""
    with running_simulator(tmp_path) as running:
        yield running
        assert running.control.breaches().simulator == ()
