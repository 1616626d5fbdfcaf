"""The release, installed in a real management cluster."""

from collections.abc import Iterator

import httpx2
import pytest

from capvco.release.build import write
from kubelocal import LocalCluster, Options, Provider
from tests.envtest.api.apiserver import Apiserver, connected

VERSION = "v0.1.0"


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a management cluster with the release in it, by the real ``clusterctl init``."""
    folder = tmp_path_factory.mktemp("release")
    write(folder / "dist", VERSION)
    provider = Provider("vco", "InfrastructureProvider", VERSION, folder / "dist")
    with LocalCluster(Options(directory=folder / "cluster")) as cluster:
        cluster.init([provider])
        yield cluster


@pytest.fixture(scope="package")
def http(installed: LocalCluster) -> Iterator[httpx2.Client]:
    """Connect with the administrator's rights."""
    with connected(installed.kubeconfig) as client:
        yield client


@pytest.fixture
def api(installed: LocalCluster, http: httpx2.Client) -> Apiserver:
    """Give our kinds in a namespace of the test's own."""
    return Apiserver(http, installed.create_namespace("api"))
