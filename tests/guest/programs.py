"""The disk with what the guests run: real programs, a card, and repositories that have its driver.

It is made anew for every run, from programs that are in a cache.
"""

import shutil
from pathlib import Path

from msgspec.structs import replace

from tests.guest.archive import Key, Package, a_key, repository
from tests.guest.image import CARD, KEY, REPORT
from tests.guest.modules import DRIVER, DRIVER_VERSION
from tests.node.binaries import CONTAINERDS, TOOLKITS
from tests.support.guests import programs
from tests.support.guests.qemu import volume

CONTAINERD = CONTAINERDS[-1]
TOOLKIT = TOOLKITS[-1]
BRANCH = DRIVER_VERSION.partition(".")[0]
_SHIM = replace(CONTAINERD, name="containerd-shim-runc-v2")
_RUNTIME = replace(TOOLKIT, name="nvidia-container-runtime")
_REPORT = Path(__file__).parent / REPORT
_SMI = Path(__file__).parent / "nvidia-smi.sh"


def programs_disk(label: str, kernel: str, modules: Path, scratch: Path) -> Path:
    """Make it for guests of a kernel. Raises NeedsGo or Unavailable where a program is not had."""
    root = scratch / label
    binaries = {
        **programs.get(),
        "containerd": CONTAINERD.path(),
        "containerd-shim-runc-v2": _SHIM.path(),
    }
    (root / "bin").mkdir(parents=True)
    for name, path in binaries.items():
        shutil.copy(path, root / "bin" / name)
    shutil.copy(modules / CARD, root / CARD)
    shutil.copy(_REPORT, root / REPORT)
    with a_key(scratch / "gnupg") as key:
        (root / KEY).write_bytes(key.public())
        _repositories(root, key, _driver(kernel, modules), scratch / "packages")
    return volume(label, root, scratch / f"{label}.iso")


def _repositories(root: Path, key: Key, driver: tuple[Package, ...], scratch: Path) -> None:
    repository(root / "archive", key, driver, scratch)
    repository(root / "toolkit/amd64", key, _toolkit(), scratch)


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
    programs_ = {"nvidia-ctk": TOOLKIT.path(), "nvidia-container-runtime": _RUNTIME.path()}
    return (
        *(Package(name=name, version=version) for name in tools),
        Package(
            name=base,
            version=version,
            files={f"/usr/bin/{name}": path for name, path in programs_.items()},
        ),
        Package(name="nvidia-container-toolkit", version=version, depends=(base, *tools)),
    )
