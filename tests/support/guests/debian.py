r"""A bootable Debian 12 disk with cloud-init, made on the spot and kept in a cache.

    image = debian_image(Recipe(packages=("containerd",), files=(("/etc/motd", "hello\n"),)))

As root, with Debian's mirror within reach; no KVM, no loop device. Two minutes the first time. The
disk boots by its own boot loader under BIOS, or at once by `kernel`, `initrd` and `arguments`.

``python -m tests.support.guests.debian`` makes the plain one and prints its path.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

SUITE = "bookworm"
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "qemu-img": "qemu-utils",
}
"""The programs used here, and Debian's packages of them."""
BASE_PACKAGES = (
    *("ca-certificates", "cloud-init", "dbus", "iproute2", "kmod", "python3-jinja2"),
    *("systemd", "systemd-sysv", "udev", "e2fsprogs"),
    *("linux-image-cloud-amd64", "initramfs-tools", "grub-pc-bin", "grub2-common"),
)
ARGUMENTS = ("root=/dev/vda1", "ro")
_UUID = "5c2a7c3e-0c5d-4f0e-9a51-6b2f5f7d1c01"
_EPOCH = "1767225600"
_FIRST_SECTOR = 2048
_SECTOR = 512
_MIB = 1 << 20
_BOOT_CODE = 440
"""Bytes of the first sector before the table of partitions."""

_CLOUD_CFG = """\
datasource_list: [NoCloud, None]
locale: false
manage_etc_hosts: false
cloud_init_modules: [bootcmd, write-files, set_hostname, update_hostname, users-groups]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user, final-message]
"""
_GRUB_CFG = """\
set timeout=0
search --no-floppy --fs-uuid --set=root {uuid}
menuentry Debian {{
  linux /boot/{kernel} root=UUID={uuid} ro console=ttyS0
  initrd /boot/{initrd}
}}
"""
_FILES = (
    ("/etc/fstab", f"UUID={_UUID} / ext4 defaults 0 1\n"),
    ("/etc/machine-id", ""),
    ("/etc/default/grub", 'GRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX=""\n'),
    # As Ubuntu's cloud images have it: a later file must append, and elsewhere.
    (
        "/etc/default/grub.d/50-cloudimg-settings.cfg",
        'GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"\nGRUB_TERMINAL=console\n',
    ),
    ("/etc/cloud/cloud.cfg.d/90-guest.cfg", _CLOUD_CFG),
)
_MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "systemd-networkd-wait-online.service"),
    *("e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer"),
)


class ImageError(Exception):
    """An image cannot be made here; the message says why."""


class Recipe(Struct, frozen=True, kw_only=True):
    """What an image has beyond the plain one."""

    packages: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    """Path and text. After the packages, before the commands; replaces what is there."""
    commands: tuple[str, ...] = ()
    """Shell, in the image's root, as root."""
    size_mib: int = 3072
    """Of the disk; what is not written takes no space."""


class DebianImage(Struct, frozen=True):
    """A disk, never to be written to: boot an overlay."""

    disk: Path
    kernel: Path
    initrd: Path
    arguments: tuple[str, ...] = ARGUMENTS


def missing_tools() -> tuple[str, ...]:
    """Name Debian's packages of what is not installed here."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return tuple(
        package for tool, package in TOOLS.items() if shutil.which(tool, path=path) is None
    )


def debian_image(recipe: Recipe | None = None) -> DebianImage:
    """Return the image of a recipe, made if it was not yet. Raises ImageError."""
    wanted = recipe or Recipe()
    folder = cache() / f"{SUITE}-{_key(wanted)}"
    image = DebianImage(folder / "disk.qcow2", folder / "vmlinuz", folder / "initrd.img")
    with _alone(folder.with_suffix(".lock")):
        if not folder.exists():
            _check_host()
            with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
                _make(wanted, Path(scratch))
                (Path(scratch) / "done").rename(folder)
    return image


def debian_tree(recipe: Recipe | None = None) -> Path:
    """Return the folder with the files of an image, never to be written to. Raises ImageError."""
    wanted = recipe or Recipe()
    folder = cache() / f"{SUITE}-{_key(wanted)}-tree"
    with _alone(folder.with_suffix(".lock")):
        if not folder.exists():
            _check_host()
            with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
                _make_root(wanted, Path(scratch) / "root")
                (Path(scratch) / "root").rename(folder)
    return folder


def cache() -> Path:
    """Return the folder that keeps what is made for guests."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "capvco-guests"


def _key(recipe: Recipe) -> str:
    content = Path(__file__).read_bytes() + msgspec.json.encode(recipe)
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_host() -> None:
    if missing_tools():
        raise ImageError(f"not installed: {' '.join(missing_tools())}")
    if os.geteuid() != 0:
        raise ImageError("only root can make the files of a root file system")


def _make(recipe: Recipe, scratch: Path) -> None:
    root, done = scratch / "root", scratch / "done"
    done.mkdir()
    _make_root(recipe, root)
    kernel, initrd = _newest(root, "vmlinuz"), _newest(root, "initrd.img")
    shutil.copy(kernel, done / "vmlinuz")
    shutil.copy(initrd, done / "initrd.img")
    core = _boot_loader(root, kernel.name, initrd.name)
    disk = scratch / "disk.raw"
    _write_disk(disk, root, core, recipe.size_mib)
    _run("qemu-img", "convert", "-O", "qcow2", str(disk), str(done / "disk.qcow2"))


def _make_root(recipe: Recipe, root: Path) -> None:
    _bootstrap(root, (*BASE_PACKAGES, *recipe.packages))
    for unit in _MASKED:
        _run("systemctl", f"--root={root}", "mask", unit)
    for path, text in (*_FILES, *recipe.files):
        _write(root, path, text)
    for command in recipe.commands:
        _run("chroot", str(root), "/bin/sh", "-ec", command)


def _bootstrap(root: Path, packages: tuple[str, ...]) -> None:
    leave_out = ("doc", "man", "locale", "info")
    _run(
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"),
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in leave_out),
        *(f"--include={','.join(packages)}", SUITE, str(root)),
    )
    for name in ("etc/hostname", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)


def _write(root: Path, path: str, text: str) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def _newest(root: Path, name: str) -> Path:
    return max((root / "boot").glob(f"{name}-*"))


def _boot_loader(root: Path, kernel: str, initrd: str) -> bytes:
    """Put GRUB's files into the root and return what goes in front of the first partition."""
    _write(root, "/boot/grub/grub.cfg", _GRUB_CFG.format(uuid=_UUID, kernel=kernel, initrd=initrd))
    modules = root / "usr/lib/grub/i386-pc"
    shutil.copytree(modules, root / "boot/grub/i386-pc")
    made = "/boot/grub/i386-pc/core.img"
    _run(
        *("chroot", str(root), "grub-mkimage", "-O", "i386-pc", "-o", made),
        *("-p", "(hd0,msdos1)/boot/grub", "biosdisk", "part_msdos", "ext2"),
    )
    first = (modules / "boot.img").read_bytes()[:_BOOT_CODE].ljust(_SECTOR, b"\0")
    return first + (root / made.lstrip("/")).read_bytes()


def _write_disk(disk: Path, root: Path, boot: bytes, size_mib: int) -> None:
    with disk.open("wb") as file:
        file.truncate(size_mib * _MIB)
    offset = _FIRST_SECTOR * _SECTOR
    features = "^metadata_csum_seed,^orphan_file"  # GRUB reads neither
    _run(
        *("mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-U", _UUID, "-O", features),
        *("-d", str(root), "-E", f"offset={offset}", str(disk), f"{(size_mib - 2) * 1024}k"),
    )
    table = f"label: dos\nstart={_FIRST_SECTOR}, size={(size_mib - 2) * 2048}, type=83, bootable\n"
    _run("sfdisk", "--quiet", str(disk), text=table)
    with disk.open("r+b") as file:
        file.write(boot[:_BOOT_CODE])
        file.seek(_SECTOR)
        file.write(boot[_SECTOR:])


def _run(*command: str, text: str = "") -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    env = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": _EPOCH, "LC_ALL": "C"}
    done = subprocess.run(command, input=text, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ImageError(f"{' '.join(command)} failed: {done.stderr.strip()[-1500:]}")


if __name__ == "__main__":
    sys.stdout.write(f"{debian_image().disk}\n")
