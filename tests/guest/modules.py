"""A card and its driver that are none, as kernel modules: what the kernel shows of them is real.

Built with the headers of the guest's kernel, which Debian has as packages; kept in the cache.
"""

import hashlib
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from tests.guest.image import CARD
from tests.support.guests.debian import cache

SOURCES = Path(__file__).parent / "modules"
DRIVER = ("nvidia.ko", "nvidia-uvm.ko")
DRIVER_VERSION = "570.133.20"
_VERSION_AT = 0x20E
"""Where a kernel image says how far behind 0x200 its version stands."""


class BuildError(Exception):
    """The modules cannot be built here; the message says why."""


def kernel_version(kernel: Path) -> str:
    """Read which kernel an image is."""
    with kernel.open("rb") as file:
        head = file.read(1 << 16)
    (offset,) = struct.unpack_from("<H", head, _VERSION_AT)
    return head[0x200 + offset :].partition(b" ")[0].decode()


def modules(version: str) -> Path:
    """Return the folder with the modules for a kernel. Raises BuildError."""
    digest = hashlib.sha256(version.encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    target = cache() / f"modules-{version}-{digest.hexdigest()[:16]}"
    if not target.exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
            built = _build(version, Path(scratch))
            built.rename(target)
    return target


def _build(version: str, scratch: Path) -> Path:
    flavour = version.split("-", 2)[2]
    names = (version, version.replace(flavour, "common"))
    headers = [f"linux-headers-{name}" for name in names]
    kbuild = f"linux-kbuild-{'.'.join(version.split('.')[:2])}"
    _run(scratch, "apt-get", "download", *headers, kbuild)
    for package in scratch.glob("*.deb"):
        _run(scratch, "dpkg-deb", "-x", str(package), "root")
    folder = scratch / "root/usr/src" / headers[0]
    (folder / "Makefile").write_text(f"include {folder.parent / headers[1]}/Makefile\n")
    work = scratch / "work"
    shutil.copytree(SOURCES, work)
    _run(scratch, "make", "-C", str(folder), f"M={work}", "modules")
    done = scratch / "done"
    done.mkdir()
    for name in (CARD, *DRIVER):
        _run(work, "strip", "--strip-debug", "-o", str(done / name), name)
    return done


def _run(folder: Path, *command: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not installed") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise BuildError(f"{' '.join(command)} failed: {said[-1500:]}")
