"""Fixtures of the whole suite: one control plane of each kind a session, started on first use."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capvco.release.build import write
from kubelocal import LocalCluster, Options, Provider
from tests.support.kubelocal_fixture import shared_control_plane
from tests.support.scenario import Scenario
from tests.support.simulator import Simulator, running_simulator

VERSION = "v0.1.0"

# A shell that starts the tests in the background makes them, and what they start, deaf to Ctrl-C;
# nohup, to the end of the terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# looptime asks the policy for its loop before every test, sync ones too, and on 3.11 the policy
# makes one if none was ever set; left unclosed, it fails a later test by its ResourceWarning. After
# this call the policy says that there is none.
asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run etcd, kube-apiserver and kube-controller-manager, and nothing else."""
    with shared_control_plane(tmp_path_factory.mktemp("control-plane")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def management_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a management cluster with Cluster API and this release, by the real ``clusterctl``."""
    with installed_cluster(tmp_path_factory.mktemp("management")) as cluster:
        yield cluster


@contextmanager
def installed_cluster(folder: Path) -> Iterator[LocalCluster]:
    """Run one; for tests that need a second."""
    write(folder / "dist", VERSION)
    provider = Provider("vco", "InfrastructureProvider", VERSION, folder / "dist")
    with LocalCluster(Options(directory=folder / "cluster")) as cluster:
        cluster.init([provider])
        yield cluster


@pytest.fixture
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Run a quick simulated cloud; afterwards no request may have been outside its description."""
    with running_simulator(tmp_path_factory.mktemp("cloud")) as running:
        yield running
        assert not running.control.breaches()


@pytest.fixture
def scenario(
    management_cluster: LocalCluster,
    simulator: Simulator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scenario]:
    """Give a namespace, a cloud, and a manager that works on nothing else."""
    with Scenario.open(management_cluster, simulator, tmp_path_factory.mktemp("manager")) as made:
        yield made
