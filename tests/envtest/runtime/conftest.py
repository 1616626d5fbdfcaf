"""A connection and a namespace for each test."""

from collections.abc import AsyncIterator

import pytest

from capvco.runtime.kube import Kube
from kubelocal import LocalCluster

from .world import CRD, connect


@pytest.fixture(scope="session")
def gadgets(control_plane: LocalCluster) -> None:
    control_plane.apply(CRD)
    control_plane.kubectl(
        "wait", "--for=condition=Established", "crd/gadgets.test.capvco.io", "--timeout=30s"
    )


@pytest.fixture
def namespace(control_plane: LocalCluster) -> str:
    return control_plane.create_namespace("runtime")


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with connect(control_plane.kubeconfig) as kube:
        yield kube
