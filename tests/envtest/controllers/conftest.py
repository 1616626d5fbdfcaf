"""One stage for each file of scenarios."""

from collections.abc import Iterator

import pytest

from kubelocal import LocalCluster
from tests.envtest.controllers.stage import Stage


@pytest.fixture(scope="module")
def stage(
    management_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Give a provisioned cluster, its manager and its cloud to all tests of a file.

    Each test makes machines under names of its own.
    """
    with Stage.opened(management_cluster, tmp_path_factory.mktemp("stage")) as made:
        yield made
