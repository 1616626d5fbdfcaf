"""Workers, booted one after the other: a driver that is installed, one that cannot be, and none.

Each fixture boots its guest when a test first asks for it, and it is off again when that begins.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.guest import guests
from tests.guest.host import missing_packages
from tests.guest.image import node_image, plain_image
from tests.guest.programs import BRANCH
from tests.guest.workers import Workers, with_driver

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Run the clusters, the cloud and the provider."""
    missing = " ".join(missing_packages())
    assert not missing, f"not installed: {missing} (python -m tests.guest.host installs them)"
    with Workers.opened(tmp_path_factory.mktemp("workers")) as opened:
        yield opened


@pytest.fixture(scope="session")
def programs() -> Iterator[guests.Programs]:
    """Make the disk that all guests share; it is large, so it does not stay."""
    with tempfile.TemporaryDirectory() as folder:
        yield guests.programs(Path(folder))


@pytest.fixture(scope="session")
def boots(
    workers: Workers,
    programs: guests.Programs,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Callable[..., guests.Booted]:
    """Give what boots a worker of a name from an image, and notes how long that took."""
    folder = tmp_path_factory.mktemp("guests")
    figures = request.config.stash.setdefault(FIGURES, [])

    def boot(name: str, *, plain: bool = False, **spec: object) -> guests.Booted:
        image = plain_image() if plain else node_image()
        booted = guests.first_boot(workers, image, programs, name, folder / name, **spec)
        figures.append(booted.figures())
        return booted

    return boot


@pytest.fixture(scope="session")
def worker(boots: Callable[..., guests.Booted]) -> guests.Booted:
    """Boot a worker with a card, and a branch that the archive has."""
    return boots("gpu-worker", **with_driver(BRANCH))


@pytest.fixture(scope="session")
def failing(boots: Callable[..., guests.Booted]) -> guests.Booted:
    """Boot a worker whose branch no archive has."""
    return boots("failing-worker", **with_driver("999"))


@pytest.fixture(scope="session")
def plain(boots: Callable[..., guests.Booted]) -> guests.Booted:
    """Boot a worker from an image without containerd, kubelet and kubeadm."""
    return boots("plain-worker", plain=True, installKubernetes="IfMissing")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how long the guests took, and what ran in them."""
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
