"""The release, installed in a real management cluster."""

from collections.abc import Iterator

import httpx2
import pytest

from kubelocal import LocalCluster
from tests.envtest.api.apiserver import Apiserver, connected


@pytest.fixture(scope="session")
def installed(management_cluster: LocalCluster) -> LocalCluster:
    """Give the management cluster with the release in it."""
    return management_cluster


@pytest.fixture(scope="package")
def http(installed: LocalCluster) -> Iterator[httpx2.Client]:
    """Connect with the administrator's rights."""
    with connected(installed.kubeconfig) as client:
        yield client


@pytest.fixture
def api(installed: LocalCluster, http: httpx2.Client) -> Apiserver:
    """Give our kinds in a namespace of the test's own."""
    return Apiserver(http, installed.create_namespace("api"))
