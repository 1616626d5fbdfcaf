"""One base image and one build of it for all tests: either takes minutes where there is no KVM."""

from pathlib import Path

import pytest

from tests.image import archive, host
from tests.image.builder import Builder
from tests.image.tree import RECIPE, kernel_of
from tests.node.binaries import TOOLKITS, Unavailable
from tests.support.guests.debian import DebianImage, Recipe, debian_image, debian_tree


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


@pytest.fixture(scope="session")
def debian(appliance: dict[str, str]) -> Path:  # noqa: ARG001 - it is what may skip
    return debian_tree(RECIPE)


@pytest.fixture(scope="session")
def packages(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the archive of stand-ins."""
    try:
        nvidia_ctk = TOOLKITS[-1].path()
    except Unavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("packages") / "archive"
    kernel = kernel_of(debian)
    stand_ins = (
        *archive.ubuntu_driver(kernel),
        *archive.build_tools(kernel),
        *archive.toolkit(nvidia_ctk),
        archive.Package(name="qemu-guest-agent", version="9.9"),
        *archive.kubernetes(archive.KUBERNETES),
    )
    archive.write_archive(stand_ins, folder)
    (folder / "key").write_text(archive.KEY)
    return folder
