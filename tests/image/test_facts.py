"""What is looked at in an image, on Debian's files: each way to be nearly right."""

from pathlib import Path

import pytest

from tests.image.tree import RECIPE, Tree
from tests.support.guests.debian import debian_tree

pytestmark = pytest.mark.timeout(600)

ENTRY = "\tlinux\t/boot/vmlinuz-6.1 root=UUID=x ro {}\n"
ALL = "blacklist nouveau\nblacklist nova_core\nblacklist nova_drm\n"


@pytest.fixture(scope="module")
def tree(
    appliance: dict[str, str],  # noqa: ARG001 - it is what may skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Tree:
    """Give one image for all; each test writes what it looks at."""
    folder = tmp_path_factory.mktemp("facts")
    return Tree(debian_tree(RECIPE), folder, folder)


def write(tree: Tree, path: str, text: str) -> Path:
    target = tree.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


@pytest.mark.parametrize(
    ("entries", "state"),
    [
        (("pci=realloc pci=nocrs",), "ok"),
        (("quiet pci=realloc pci=nocrs splash", "pci=nocrs x pci=realloc"), "ok"),
        (("pci=realloc pci=nocrs", "single"), "absent"),
        (("pci=realloc",), "absent"),
        (("pci=nocrs",), "absent"),
        (("pci=reallocate pci=nocrs",), "absent"),
        ((), "absent"),
    ],
)
def test_arguments(tree: Tree, entries: tuple[str, ...], state: str) -> None:
    """Every entry that starts a kernel counts, and whole words."""
    menu = "set timeout=0\n" + "".join(ENTRY.format(entry) for entry in entries)
    write(tree, "boot/grub/grub.cfg", menu + "\tlinux\t/memtest86+x64.bin\n")
    assert tree.facts()["arguments"][0] == state


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (ALL, ""),
        (ALL.replace("blacklist nouveau", "  blacklist   nouveau "), ""),
        (ALL.replace("blacklist nouveau", "#blacklist nouveau"), "nouveau"),
        (ALL.replace("blacklist nova_drm", "blacklist nova_drm_other"), "nova_drm"),
        ("blacklist nouveau\n", "nova_core nova_drm"),
        ("", "nouveau nova_core nova_drm"),
    ],
)
def test_blacklist(tree: Tree, text: str, missing: str) -> None:
    """Each name, in force; a comment or a longer name is none."""
    file = write(tree, "etc/modprobe.d/some.conf", text)
    state, detail = tree.facts()["blacklist"]
    file.unlink()
    assert (state == "ok") == (not missing)
    assert not missing or detail == f"/etc/modprobe.d does not blacklist {missing}"


def test_a_kernel_without_initramfs(tree: Tree) -> None:
    """A second kernel that nobody has made an initramfs for is named."""
    kernel = write(tree, "boot/vmlinuz-9.9-other", "")
    step = tree.run("facts")
    kernel.unlink()
    assert "initramfs\trequired\tabsent\tthere is no /boot/initrd.img-9.9-other" in step.output


def test_an_initramfs_that_cannot_be_read(tree: Tree) -> None:
    """A damaged file is no file with a blacklist."""
    kernel = write(tree, "boot/vmlinuz-9.9-other", "")
    initramfs = write(tree, "boot/initrd.img-9.9-other", "damaged")
    step = tree.run("facts")
    kernel.unlink()
    initramfs.unlink()
    row = next(line for line in step.output.splitlines() if "initrd.img-9.9-other" in line)
    assert row.startswith("initramfs\trequired\tabsent\t")


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        (("boot/grub/i386-pc/normal.mod",), ("ok", "bios")),
        (("boot/efi/EFI/BOOT/BOOTX64.EFI",), ("ok", "uefi")),
        (
            ("boot/grub/i386-pc/normal.mod", "boot/efi/EFI/BOOT/BOOTX64.EFI"),
            ("ok", "bios uefi"),
        ),
    ],
)
def test_boot_type(tree: Tree, files: tuple[str, ...], kinds: tuple[str, str]) -> None:
    """Both kinds of loaders are told."""
    written = [write(tree, file, "") for file in files]
    told = tree.facts()["boot-type"]
    for file in written:
        file.unlink()
    assert told == kinds
