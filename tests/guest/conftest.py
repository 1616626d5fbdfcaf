"""Two workers, booted one after the other: one whose driver step ends well, one where it fails."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest import guests
from tests.guest.programs import BRANCH
from tests.guest.workers import Workers
from tests.support.guests import debian, qemu

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Run the clusters, the cloud and the provider."""
    missing = {*qemu.missing_tools(), *debian.missing_tools()}
    assert not missing, f"install these packages of Debian's first: {' '.join(sorted(missing))}"
    with Workers.opened(tmp_path_factory.mktemp("workers")) as opened:
        yield opened


@pytest.fixture(scope="session")
def disks() -> Iterator[guests.Disks]:
    """Make what the guests boot from; half a gigabyte, so it does not stay."""
    with tempfile.TemporaryDirectory() as folder:
        yield guests.disks(Path(folder))


@pytest.fixture(scope="session")
def worker(
    workers: Workers,
    disks: guests.Disks,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> guests.Booted:
    """Boot a worker with a card, and a branch that the archive has."""
    folder = tmp_path_factory.mktemp("guests") / "worker"
    booted = guests.first_boot(workers, disks, "gpu-worker", BRANCH, folder)
    request.config.stash.setdefault(FIGURES, []).append(booted.figures())
    return booted


@pytest.fixture(scope="session")
def failing(
    workers: Workers,
    disks: guests.Disks,
    worker: guests.Booted,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> guests.Booted:
    """Boot a worker whose branch no archive has, once the other guest is off."""
    folder = tmp_path_factory.mktemp("guests") / "failing"
    booted = guests.first_boot(workers, disks, "failing-worker", "999", folder)
    assert booted.name != worker.name
    request.config.stash.setdefault(FIGURES, []).append(booted.figures())
    return booted


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how long the guests took, and what ran in them."""
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
