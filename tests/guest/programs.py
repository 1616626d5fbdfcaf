"""The disk with what the guests run: real programs, a card, and repositories.

There is one of the distribution's, with the driver and containerd, one of the container toolkit,
and one of Kubernetes.

It is made anew for every run, from programs that are in a cache.
"""

import shutil
from pathlib import Path

from msgspec.structs import replace

from kubelocal.catalogue import KUBERNETES_VERSION
from tests.guest.archive import Package, a_key, repository
from tests.guest.image import CARD, KEY, NODE_UNITS, REPORT, UNITS
from tests.guest.modules import DRIVER, DRIVER_VERSION
from tests.node.binaries import CONTAINERDS, TOOLKITS
from tests.support.guests import programs
from tests.support.guests.qemu import volume

CONTAINERD = CONTAINERDS[-1]
TOOLKIT = TOOLKITS[-1]
BRANCH = DRIVER_VERSION.partition(".")[0]
_CONTAINERD_UNIT, _KUBELET_UNIT = NODE_UNITS
SHIM = replace(CONTAINERD, name="containerd-shim-runc-v2")
RUNTIME = replace(TOOLKIT, name="nvidia-container-runtime")
PROGRAMS = (CONTAINERD, SHIM, TOOLKIT, RUNTIME)
_REPORT = Path(__file__).parent / REPORT
_SMI = Path(__file__).parent / "nvidia-smi.sh"


def programs_disk(label: str, kernel: str, modules: Path, scratch: Path) -> Path:
    """Make it for guests of a kernel. Raises NeedsGo or Unavailable where a program is not had."""
    root = scratch / label
    binaries = {
        **programs.get(),
        "containerd": CONTAINERD.path(),
        "containerd-shim-runc-v2": SHIM.path(),
    }
    (root / "bin").mkdir(parents=True)
    for name, path in binaries.items():
        shutil.copy(path, root / "bin" / name)
    shutil.copy(modules / CARD, root / CARD)
    shutil.copy(_REPORT, root / REPORT)
    repositories = {
        "archive": (*_driver(kernel, modules), _containerd(root / "bin")),
        "toolkit/amd64": _toolkit(),
        "kubernetes": _kubernetes(root / "bin"),
    }
    with a_key(scratch / "gnupg") as key:
        (root / KEY).write_bytes(key.public())
        for name, packages in repositories.items():
            repository(root / name, key, packages, scratch / "packages")
    return volume(label, root, scratch / f"{label}.iso")


def _containerd(binaries: Path) -> Package:
    """Return what a distribution has of containerd."""
    names = ("containerd", "containerd-shim-runc-v2")
    return Package(
        name="containerd",
        version=f"{CONTAINERD.version}-0test1",
        depends=("runc",),
        files={f"/usr/bin/{name}": binaries / name for name in names}
        | {f"/usr/lib/systemd/system/{_CONTAINERD_UNIT}": UNITS / _CONTAINERD_UNIT},
    )


def _kubernetes(binaries: Path) -> tuple[Package, ...]:
    """Return what the repository of a minor version of Kubernetes has."""
    version = f"{KUBERNETES_VERSION.removeprefix('v')}-1.1"
    unit = {f"/usr/lib/systemd/system/{_KUBELET_UNIT}": UNITS / _KUBELET_UNIT}
    return (
        Package(name="cri-tools", version=version),
        Package(name="kubectl", version=version),
        *(
            Package(name=name, version=version, files={f"/usr/bin/{name}": binaries / name} | more)
            for name, more in {"kubeadm": {}, "kubelet": unit}.items()
        ),
    )


def _driver(kernel: str, modules: Path) -> tuple[Package, ...]:
    """Return what Ubuntu's archive has of a branch."""
    folder = f"/lib/modules/{kernel}/kernel/nvidia-{BRANCH}srv"
    common = f"nvidia-kernel-common-{BRANCH}-server"
    version = f"{DRIVER_VERSION}-0test1"
    return (
        Package(name=common, version=version),
        Package(
            name=f"nvidia-driver-{BRANCH}-server",
            version=version,
            depends=(common,),
            files={"/usr/bin/nvidia-smi": _SMI},
        ),
        Package(
            name=f"linux-modules-nvidia-{BRANCH}-server-{kernel}",
            version=version,
            files={f"{folder}/{name}": modules / name for name in DRIVER},
            postinst=f"depmod {kernel}",
        ),
    )


def _toolkit() -> tuple[Package, ...]:
    """Return what NVIDIA's repository has."""
    version = f"{TOOLKIT.version}-1"
    base = "nvidia-container-toolkit-base"
    tools = ("libnvidia-container-tools", "libnvidia-container1")
    programs_ = {"nvidia-ctk": TOOLKIT.path(), "nvidia-container-runtime": RUNTIME.path()}
    return (
        *(Package(name=name, version=version) for name in tools),
        Package(
            name=base,
            version=version,
            files={f"/usr/bin/{name}": path for name, path in programs_.items()},
        ),
        Package(name="nvidia-container-toolkit", version=version, depends=(base, *tools)),
    )
