"""One plain control plane for a whole test session, started when the first test asks for it.

A conftest makes a session fixture of it:

    @pytest.fixture(scope="session")
    def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
        with shared_control_plane(tmp_path_factory.mktemp("kubelocal")) as cluster:
            yield cluster

and gives each test a namespace of its own with `cluster.create_namespace("test")`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubelocal import LocalCluster, Options, PlainProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def shared_control_plane(
    directory: Path, *, controller_manager: bool = True
) -> Iterator[LocalCluster]:
    """Run etcd, kube-apiserver and kube-controller-manager, without Cluster API, until the end.

    On the first use on a machine the tools are built or downloaded: minutes, said on stderr.
    """
    options = Options(
        directory=directory,
        capi=False,
        controller_manager=controller_manager,
        progress=PlainProgress(lambda text: print(text, file=sys.stderr)),  # noqa: T201
    )
    with LocalCluster(options) as cluster:
        yield cluster


def namespaces(cluster: LocalCluster, prefix: str = "test") -> Callable[[], str]:
    """Give a factory of fresh namespaces; they need not be deleted, the cluster goes as a whole."""
    return lambda: cluster.create_namespace(prefix)
