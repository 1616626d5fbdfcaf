"""The world of the examples, made once."""

from collections.abc import Iterator

import pytest
import structlog

from kubelocal import LocalCluster
from tests.chaos.stateful.world import World
from tests.support.simulator import running_simulator


@pytest.fixture(scope="module")
def world(
    control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory, plain_logs: None
) -> Iterator[World]:
    """Give a control plane with the release, and a cloud."""
    del plain_logs
    folder = tmp_path_factory.mktemp("stateful")
    with running_simulator(folder) as simulator:
        yield World.made(control_plane, simulator, folder)


@pytest.fixture(scope="module")
def plain_logs() -> Iterator[None]:
    """Log without pictures of tracebacks: they take seconds, during which nothing else runs."""
    before = structlog.get_config()
    structlog.configure(processors=[structlog.processors.KeyValueRenderer(key_order=["event"])])
    yield
    structlog.configure(**before)
