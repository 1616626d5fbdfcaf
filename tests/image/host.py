"""What the tests of images need of this machine: Debian's packages, and a kernel for libguestfs.

``python -m tests.image.host`` installs the packages (as root) and fetches the kernel.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.guests.debian import cache

TOOLS = {
    "guestfish": "libguestfs-tools",
    "supermin": "supermin",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "genisoimage": "genisoimage",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "depmod": "kmod",
    "unshare": "util-linux",
    "as": "binutils",
    "dpkg-scanpackages": "dpkg-dev",
}
"""The programs, and Debian's packages of them."""
KERNEL = "linux-image-cloud-amd64"


class HostError(Exception):
    """This machine cannot run these tests; the message says why."""


def missing_packages() -> tuple[str, ...]:
    """Name Debian's packages of what is not installed here."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = {package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None}
    return tuple(sorted(lacking))


def check() -> None:
    """Raise HostError unless the tests can run."""
    if os.geteuid() != 0:
        raise HostError("only root can make a root file system")
    if missing_packages():
        names = " ".join(missing_packages())
        raise HostError(f"not installed: {names} (python -m tests.image.host installs them)")


def install() -> None:
    """Install what is missing. Idempotent. Raises HostError."""
    if missing_packages():
        options = ("-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
        _run("apt-get", "update", "-q")
        _run("apt-get", "install", *options, *missing_packages())
    check()


def appliance() -> dict[str, str]:
    """Return the environment in which libguestfs finds a kernel. Raises HostError.

    A machine without a kernel of its own, such as a container, gets Debian's, in the cache.
    """
    if any(os.access(path, os.R_OK) for path in Path("/boot").glob("vmlinuz-*")):
        return {}
    # supermin wants it there, though it then looks elsewhere.
    Path("/lib/modules").mkdir(exist_ok=True)
    folder = cache() / "appliance-kernel"
    if not folder.exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
            _unpack_kernel(Path(scratch))
            (Path(scratch) / "root").rename(folder)
    kernel = next((folder / "boot").glob("vmlinuz-*"))
    version = kernel.name.removeprefix("vmlinuz-")
    return {
        "SUPERMIN_KERNEL": str(kernel),
        "SUPERMIN_KERNEL_VERSION": version,
        "SUPERMIN_MODULES": str(folder / "lib" / "modules" / version),
    }


def _unpack_kernel(scratch: Path) -> None:
    depends = _run("apt-cache", "depends", KERNEL)
    name = next(line.split()[1] for line in depends.splitlines() if "Depends: linux-" in line)
    _run("apt-get", "download", "-q", name, cwd=scratch)
    _run("dpkg-deb", "-x", str(next(scratch.glob("*.deb"))), str(scratch / "root"))
    version = next((scratch / "root/lib/modules").iterdir()).name
    _run("depmod", "-b", str(scratch / "root"), version)


def _run(*command: str, cwd: Path | None = None) -> str:
    env = {
        **os.environ,
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C",
    }
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostError(f"{' '.join(command)} failed: {done.stderr.strip()[-600:]}")
    return done.stdout


if __name__ == "__main__":
    install()
    for key, value in appliance().items():
        sys.stdout.write(f"{key}={value}\n")
