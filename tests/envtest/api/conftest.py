"""The release's CRDs, policies and roles, installed in a real control plane."""

from collections.abc import Iterator

import httpx2
import pytest

from capvco.release.build import to_yaml
from capvco.release.components import components
from kubelocal import LocalCluster, Options
from tests.envtest.api.apiserver import Apiserver, connected


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a control plane with everything of the release but a running manager."""
    options = Options(directory=tmp_path_factory.mktemp("cluster"), capi=False)
    with LocalCluster(options) as cluster:
        cluster.apply(to_yaml(components("v0.1.0")))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        yield cluster


@pytest.fixture(scope="session")
def http(installed: LocalCluster) -> Iterator[httpx2.Client]:
    """Connect with the administrator's rights."""
    with connected(installed.kubeconfig) as client:
        yield client


@pytest.fixture
def api(installed: LocalCluster, http: httpx2.Client) -> Apiserver:
    """Give our kinds in a namespace of the test's own."""
    return Apiserver(http, installed.create_namespace("api"))
