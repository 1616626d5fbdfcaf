"""One base image and one build of it for all tests: either takes minutes where there is no KVM."""

from pathlib import Path

import pytest

from tests.image import host
from tests.image.builder import Builder
from tests.support.guests.debian import DebianImage, Recipe, debian_image


@pytest.fixture(scope="session")
def appliance() -> dict[str, str]:
    """Give the environment for libguestfs, or skip."""
    try:
        host.check()
        return host.appliance()
    except host.HostError as error:
        pytest.skip(str(error))


@pytest.fixture
def builder(appliance: dict[str, str], tmp_path: Path) -> Builder:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Builder(appliance, scratch)


@pytest.fixture(scope="session")
def base(appliance: dict[str, str]) -> DebianImage:  # noqa: ARG001 - it is what may skip
    """Give Debian 12 with cloud-init and GRUB, which no builder has touched."""
    return debian_image()


@pytest.fixture(scope="session")
def without_grub(appliance: dict[str, str]) -> DebianImage:  # noqa: ARG001 - it is what may skip
    """Give the same without the tools of its boot loader."""
    return debian_image(Recipe(commands=("rm /usr/sbin/update-grub /usr/sbin/grub-mkconfig",)))


@pytest.fixture(scope="session")
def built(
    base: DebianImage, appliance: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Build the GPU base image, once, with all that it says in a file beside it."""
    folder = tmp_path_factory.mktemp("built")
    scratch = folder / "scratch"
    scratch.mkdir()
    output = folder / "dist" / "gpu.qcow2"
    run = Builder(appliance, scratch).run("--base-image", str(base.disk), "--output", str(output))
    assert run.code == 0, run.said
    (folder / "said").write_text(run.said)
    return output
