"""The nodes that tests look at: every containerd with every nvidia-ctk, where it matters."""

from pathlib import Path

import pytest

from tests.node.binaries import (
    CONTAINERDS,
    DEBIAN_CONTAINERD,
    TOOLKITS,
    Program,
    Unavailable,
)
from tests.node.machine import Node


def _path(program: Program) -> Path:
    try:
        return program.path()
    except Unavailable as error:
        pytest.skip(f"{program.key} cannot be had here: {error}")


@pytest.fixture(scope="session", params=CONTAINERDS, ids=lambda program: program.key)
def containerd(request: pytest.FixtureRequest) -> Path:
    """Each version of containerd."""
    return _path(request.param)


@pytest.fixture(scope="session", params=TOOLKITS, ids=lambda program: program.key)
def toolkit(request: pytest.FixtureRequest) -> Path:
    """Each version of nvidia-ctk."""
    return _path(request.param)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with the distribution's containerd and the newest nvidia-ctk."""
    return Node(tmp_path / "node", _path(DEBIAN_CONTAINERD), _path(TOOLKITS[-1]))


@pytest.fixture
def any_node(tmp_path: Path, containerd: Path, toolkit: Path) -> Node:
    """A node of every combination, with the toolkit installed."""
    found = Node(tmp_path / "node", containerd, toolkit)
    found.toolkit_is_there()
    return found
