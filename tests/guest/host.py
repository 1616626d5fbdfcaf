"""What the guests need of this machine.

``python -m tests.guest.host`` installs Debian's packages (as root), and builds the programs and
images, so that the tests themselves begin at once.
"""

import os
import shutil
import subprocess
import sys

from tests.guest.image import node_image, plain_image
from tests.guest.modules import kernel_version, modules
from tests.guest.programs import PROGRAMS
from tests.support.guests import debian, programs, qemu

TOOLS = {
    **qemu.TOOLS,
    **debian.TOOLS,
    "dpkg-deb": "dpkg",
    "gcc": "gcc",
    "gpg": "gnupg",
    "make": "make",
    "strip": "binutils",
}
"""The programs, and Debian's packages of them."""


def missing_packages() -> tuple[str, ...]:
    """Name Debian's packages of what is not installed here."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = {package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None}
    return tuple(sorted(lacking))


def install() -> None:
    """Install what is missing. Idempotent."""
    options = ("-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    if missing_packages():
        subprocess.run(["apt-get", "update", "-q"], env=env, check=True)
        command = ["apt-get", "install", *options, *missing_packages()]
        subprocess.run(command, env=env, check=True)


def prepare() -> None:
    """Make everything that is kept in a cache. Idempotent."""
    made = [*programs.get().values(), *(program.path() for program in PROGRAMS)]
    for image in (node_image(), plain_image()):
        made += [image.disk, modules(kernel_version(image.kernel))]
    for path in dict.fromkeys(made):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    install()
    prepare()
