"""Kubernetes at first boot with the real apt and the real containerd, in a root of its own.

The packages of Kubernetes are made here, of the names, versions and dependencies that the real ones
have; everything else is Debian's.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.machine import SCRIPTS

pytestmark = [pytest.mark.node, pytest.mark.timeout(1200)]

REVISIONS = ("1.35.7-1.1", "1.35.8-1.1", "1.35.8-2.1", "1.35.10-1.1")
DEPENDENCIES = {
    "kubeadm": "",
    "kubectl": "",
    "kubelet": "kubernetes-cni (>= 1.2.0), mount, util-linux",
}
PROGRAM = """#!/bin/sh
case "$1" in
  version) echo v{version} ;;
  config) echo registry.k8s.io/pause:3.10.1 ;;
esac
"""
SETTINGS = """\
CAPVCO_KUBERNETES_VERSION=v1.35.8
CAPVCO_KUBERNETES_LIST='deb [trusted=yes] file:/srv/kubernetes ./'
CAPVCO_KUBERNETES_KEY=/srv/kubernetes/key.asc
"""


def package(folder: Path, name: str, version: str, depends: str = "") -> None:
    """Make a package of one program."""
    tree = folder / "tree"
    program = tree / "usr/bin" / name
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(version=version.partition("-")[0]))
    program.chmod(0o755)
    control = tree / "DEBIAN/control"
    control.parent.mkdir()
    control.write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a test\n"
        f"Description: plays {name}\n{f'Depends: {depends}' if depends else ''}".strip()
        + "\n"
    )
    run("dpkg-deb", "--build", "--root-owner-group", str(tree), str(folder))
    shutil.rmtree(tree)


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A root with the least of Debian, and a repository of Kubernetes of several versions."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a root file system")
    for tool in ("mmdebstrap", "dpkg-scanpackages"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root = tmp_path_factory.mktemp("apt") / "root"
    run("mmdebstrap", "--variant=apt", "--include=ca-certificates", "bookworm", str(root))
    repository = root / "srv/kubernetes"
    repository.mkdir(parents=True)
    for revision in REVISIONS:
        for name, depends in DEPENDENCIES.items():
            package(repository, name, revision, depends)
    for name in ("kubernetes-cni", "cri-tools"):
        package(repository, name, "1.35.0-1.1")
    index = run("dpkg-scanpackages", "--multiversion", ".", cwd=repository)
    (repository / "Packages").write_text(index)
    (repository / "key.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\nx\n")
    shutil.copytree(SCRIPTS, root / "opt/capvco/kubernetes")
    (root / "etc/capvco").mkdir()
    (root / "etc/capvco/kubernetes.env").write_text(SETTINGS)
    yield root
    shutil.rmtree(root)


def step(root: Path) -> str:
    return run("chroot", str(root), "/bin/bash", "/opt/capvco/kubernetes/kubernetes.sh")


def versions(root: Path) -> dict[str, str]:
    said = run("chroot", str(root), "dpkg-query", "-W", "-f", "${Package} ${Version}\\n")
    return dict(line.split(" ", 1) for line in said.splitlines())


def test_exactly_the_version(root: Path) -> None:
    """The newest package of that version and no other, held; containerd as a kubelet wants it."""
    output = step(root)
    found = versions(root)
    names = ("kubeadm", "kubelet", "kubectl")
    assert [found[name] for name in names] == ["1.35.8-2.1"] * 3
    assert {"kubernetes-cni", "cri-tools", "containerd", "conntrack", "socat"} <= found.keys()
    held = run("chroot", str(root), "apt-mark", "showhold").split()
    assert sorted(held) == sorted(names)
    assert "ERROR" not in output
    dump = run("chroot", str(root), "containerd", "config", "dump")
    assert "SystemdCgroup = true" in dump
    assert 'sandbox_image = "registry.k8s.io/pause:3.10.1"' in dump
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    assert (wanted / "containerd.service").is_symlink()


def test_again(root: Path) -> None:
    """A second run finds all of it."""
    before = versions(root)
    assert step(root) == (
        "capvco: kubeadm, kubelet and a container runtime are there: nothing is installed\n"
    )
    assert versions(root) == before


def test_a_version_that_is_not_there(root: Path) -> None:
    """The message has apt's own words, and where it looked."""
    run("chroot", str(root), "apt-get", "purge", "-y", "--allow-change-held-packages", "kubelet")
    settings = root / "etc/capvco/kubernetes.env"
    settings.write_text(SETTINGS.replace("v1.35.8", "v1.35.99") + "CAPVCO_KUBERNETES_TRIES=1\n")
    done = subprocess.run(
        ["chroot", str(root), "/bin/bash", "/opt/capvco/kubernetes/kubernetes.sh"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ERROR: packages: PackageMissing: " in done.stdout
    assert "kubelet=1.35.99-*" in done.stdout
