"""A workload cluster beside the management cluster."""

from collections.abc import Iterator

import pytest

from kubelocal import LocalCluster
from tests.envtest.addon.workload import Workload
from tests.support.kubelocal_fixture import shared_control_plane
from tests.support.scenario import Scenario


@pytest.fixture(scope="package")
def workload_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a control plane whose API server the tests may stop."""
    with shared_control_plane(tmp_path_factory.mktemp("workload")) as cluster:
        yield cluster


@pytest.fixture
def workload(workload_cluster: LocalCluster) -> Iterator[Workload]:
    """Give the workload cluster; afterwards it is as empty as before."""
    made = Workload(workload_cluster)
    yield made
    made.clean()


@pytest.fixture
def managed(scenario: Scenario, workload: Workload) -> Iterator[Scenario]:
    """Give a scenario with its manager at work, which looks at nodes often.

    Afterwards Cluster API installs nothing more; the workload cluster is cleaned after that.
    """
    assert workload.plugin() is None
    scenario.flags["node-interval"] = "0.2s"
    scenario.start_manager()
    yield scenario
    scenario.kubectl("delete", "clusterresourcesets", "--all")
