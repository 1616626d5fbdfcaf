"""The world of the examples, made once."""

from collections.abc import Iterator

import pytest

from kubelocal import LocalCluster
from tests.chaos.stateful.world import World
from tests.support.simulator import running_simulator


@pytest.fixture(scope="module")
def world(control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a control plane with the release, and a cloud."""
    folder = tmp_path_factory.mktemp("stateful")
    with running_simulator(folder) as simulator:
        yield World.made(control_plane, simulator, folder)
