"""Driver, toolkit, runtime and Kubernetes, baked in by the scripts of the node.

The packages are stand-ins; apt, dpkg, kmod, containerd and nvidia-ctk are real.
"""

import platform
from pathlib import Path

import pytest

from tests.image import archive
from tests.image.archive import KUBERNETES
from tests.image.tree import Step, Tree

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def tree(debian: Path, packages: Path, tmp_path: Path) -> Tree:
    return Tree(debian, tmp_path, packages)


def works(step: Step) -> None:
    assert step.code == 0, step.output


def held(tree: Tree) -> set[str]:
    blocks = tree.read("var/lib/dpkg/status").split("\n\n")
    return {
        block.splitlines()[0].removeprefix("Package: ")
        for block in blocks
        if "\nStatus: hold " in block
    }


def sources(tree: Tree) -> dict[str, str]:
    places = [tree.root / "etc/apt/sources.list", *(tree.root / "etc/apt/sources.list.d").iterdir()]
    return {path.name: path.read_text() for path in places if path.exists()}


def test_a_branch(tree: Tree) -> None:
    """For the image's kernel, not for the one that runs the build."""
    assert tree.kernel != platform.release()
    works(tree.run("bake", {"DRIVER": "570"}))
    facts = tree.facts()
    assert facts["driver"] == ("ok", f"{archive.VERSION} for {tree.kernel}")
    assert facts["toolkit"][0] == "ok"
    assert facts["runtime"] == ("ok", "containerd has the runtime nvidia")
    assert {"nvidia-driver-570-server", "nvidia-container-toolkit"} <= held(tree)


def test_a_package_of_the_user(tree: Tree) -> None:
    """The GRID case: a .deb that no archive has, its toolkit and runtime as ever."""
    driver = archive.write_package(archive.driver(tree.kernel), tree.root / "tmp")
    tree.give("driver.deb", driver.read_bytes())
    works(tree.run("bake"))
    assert tree.facts()["driver"] == ("ok", f"{archive.VERSION} for {tree.kernel}")
    assert tree.facts()["runtime"][0] == "ok"
    assert "nvidia-guest-driver" in held(tree)


def test_an_installer_of_the_user(tree: Tree) -> None:
    """A .run builds for the image's kernel, without a question; what it needs for it is there."""
    tree.give("driver.run", archive.installer(tree.kernel))
    works(tree.run("bake"))
    assert tree.facts()["driver"] == ("ok", f"{archive.VERSION} for {tree.kernel}")
    assert tree.facts()["runtime"][0] == "ok"
    status = tree.read("var/lib/dpkg/status")
    assert f"Package: linux-headers-{tree.kernel}\nStatus: install ok installed" in status


def test_an_installer_that_fails(tree: Tree) -> None:
    """Its own log is shown."""
    tree.give("driver.run", "echo 'ERROR: no licence' >/var/log/nvidia-installer.log; exit 1\n")
    step = tree.run("bake")
    assert step.code == 1
    assert "ERROR: no licence" in step.output
    assert "the driver's installer failed" in step.output


def test_a_package_without_a_module(tree: Tree) -> None:
    """A driver for another kernel is found out at once."""
    driver = archive.write_package(archive.driver("6.8.0-other"), tree.root / "tmp")
    tree.give("driver.deb", driver.read_bytes())
    step = tree.run("bake")
    assert step.code == 1
    assert f"brought no module nvidia for the image's kernel {tree.kernel}" in step.output


def test_kubernetes(tree: Tree) -> None:
    """The version of kubeadm and kubelet that was asked for, and containerd as a node wants it."""
    works(tree.run("bake", {"KUBERNETES_VERSION": KUBERNETES}))
    facts = tree.facts()
    assert facts["kubeadm"] == ("ok", KUBERNETES)
    assert facts["kubelet"] == ("ok", KUBERNETES)
    assert facts["driver"][0] == "absent"
    assert {"kubeadm", "kubelet"} <= held(tree)


def test_other_packages(tree: Tree) -> None:
    """Any of the archive; one that it does not have is named."""
    works(tree.run("bake", {"PACKAGES": "gcc make"}))
    assert "Package: make\nStatus: install ok installed" in tree.read("var/lib/dpkg/status")
    step = tree.run("bake", {"PACKAGES": "no-such-package"})
    assert step.code == 1
    assert "do not have all of no-such-package" in step.output


def test_everything(tree: Tree) -> None:
    """Together; and what the build needed for itself is gone, the image's sources are back."""
    before = sources(tree)
    works(tree.run("bake", {"DRIVER": "570", "KUBERNETES_VERSION": KUBERNETES}))
    works(tree.run("seal"))
    facts = tree.facts()
    for name in ("driver", "toolkit", "runtime", "kubeadm", "kubelet", "containerd"):
        assert facts[name][0] == "ok", name
    after = sources(tree)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"nvidia-container-toolkit.list", "kubernetes.list"}
    for left in ("usr/sbin/policy-rc.d", "etc/capvco", "run/capvco", "var/log/capvco-gpu.log"):
        assert not (tree.root / left).exists(), left
    assert not [path for path in (tree.root / "var/lib/apt/lists").rglob("*") if path.is_file()]


def test_a_branch_that_is_not_there(tree: Tree) -> None:
    """The node's words, and its cause; the image's sources are back all the same."""
    before = sources(tree)
    step = tree.run("bake", {"DRIVER": "999"})
    assert step.code == 1
    assert "BranchUnknown" in step.output
    assert "branches it has: 570" in step.output
    assert sources(tree) == before


def test_the_base(tree: Tree) -> None:
    """The files are the same whenever they are written, down to their dates."""
    works(tree.run("base"))
    paths = ("etc/modprobe.d/capvco-gpu-base.conf", "etc/default/grub.d/90-capvco-gpu.cfg")
    first = [((tree.root / path).read_text(), (tree.root / path).stat().st_mtime) for path in paths]
    kernel = tree.root / "boot" / f"vmlinuz-{tree.kernel}"
    assert {time for _text, time in first} == {int(kernel.stat().st_mtime)}
    works(tree.run("base"))
    assert first == [
        ((tree.root / path).read_text(), (tree.root / path).stat().st_mtime) for path in paths
    ]
    assert tree.facts()["blacklist"][0] == "ok"
    assert tree.facts()["initramfs"][0] == "absent"


def test_the_initramfs_is_reproducible(tree: Tree) -> None:
    """Made twice, it is the same; and it has the blacklist."""
    works(tree.run("base"))
    made = []
    for _ in range(2):
        step = tree.run("initramfs")
        # There is no disk here that GRUB could tell of; the initramfs came before.
        assert "grub-probe: error" in step.output or step.code == 0, step.output
        made.append((tree.root / "boot" / f"initrd.img-{tree.kernel}").read_bytes())
    assert made[0] == made[1]
    assert tree.facts()["initramfs"][0] == "ok"
