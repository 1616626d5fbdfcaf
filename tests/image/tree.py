"""The files of a Debian image as the builder's scripts see them, changed without any emulation.

What runs in libguestfs's machine runs here in a chroot, with mounts that vanish with it.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tests.image.builder import BUILDER
from tests.support.guests.debian import Recipe

RECIPE = Recipe(
    packages=(
        "containerd",
        "curl",
        "conntrack",
        "ethtool",
        "iptables",
        "socat",
        "cloud-guest-utils",
    )
)
"""What is not under test comes with the image, so that no archive is asked for it."""
_SCRIPTS = BUILDER.parent / "guest"
_NODE = BUILDER.parents[1] / "src" / "capvco" / "bootstrap" / "scripts"
_PAYLOAD = "var/tmp/capvco-image"
_ENTER = """\
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
mount --bind "$3" "$1/mnt"
exec chroot "$1" /bin/bash "/var/tmp/capvco-image/$2.sh"
"""


class Step(Struct, frozen=True):
    """How a script ended."""

    code: int
    output: str


class Tree:
    """A root file system with the builder's payload."""

    def __init__(self, source: Path, folder: Path, archive: Path) -> None:
        self.root = folder / "root"
        self._archive = archive
        subprocess.run(["cp", "-a", str(source), str(self.root)], check=True)
        (self.root / "boot/grub").mkdir(exist_ok=True)
        (self.root / "boot/grub/grub.cfg").touch()
        self._payload = self.root / _PAYLOAD
        self._payload.mkdir(parents=True)
        for script in _SCRIPTS.glob("*.sh"):
            shutil.copy(script, self._payload)
        shutil.copytree(_NODE, self._payload / "node")
        # The archive is /mnt, in place of every other.
        self.give("apt.sources", "deb [trusted=yes] file:/mnt ./\n")
        self.give(
            "settings.env",
            "CAPVCO_TOOLKIT_KEY=/mnt/key CAPVCO_KUBERNETES_KEY=/mnt/key\n"
            "CAPVCO_TOOLKIT_LIST='deb [trusted=yes] file:/mnt ./'\n"
            "CAPVCO_KUBERNETES_LIST='deb [trusted=yes] file:/mnt ./'\n"
            "CAPVCO_GPU_TRIES=1 CAPVCO_KUBERNETES_TRIES=1\n",
        )

    @property
    def kernel(self) -> str:
        return kernel_of(self.root)

    def give(self, name: str, content: str | bytes) -> None:
        """Put a file into the payload."""
        data = content.encode() if isinstance(content, str) else content
        (self._payload / name).write_bytes(data)

    def run(self, script: str, settings: Mapping[str, str] | None = None) -> Step:
        """Run one of the builder's scripts as its build does."""
        lines = (f"{key}='{value}'\n" for key, value in (settings or {}).items())
        self.give("build.env", "".join(lines))
        enter = ("sh", "-ec", _ENTER, "-", str(self.root), script, str(self._archive))
        done = subprocess.run(
            ["unshare", "--mount", "--", *enter],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Step(done.returncode, done.stdout)

    def facts(self) -> dict[str, tuple[str, str]]:
        """Return state and detail of what --check shows."""
        step = self.run("facts")
        assert step.code == 0, step.output
        rows = (line.split("\t") for line in step.output.splitlines() if line.count("\t") == 3)
        return {name: (state, detail) for name, _need, state, detail in rows}

    def read(self, path: str) -> str:
        return (self.root / path).read_text()


def kernel_of(root: Path) -> str:
    """Return the version of the image's kernel."""
    return next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
