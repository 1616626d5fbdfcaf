"""What a file holds, told by its first bytes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.cli.imagepublish.disk import Disk, Format, inspect
from capvco.cli.unusable import Unusable
from tests.support.disks import GIB, a_qcow2, a_raw_disk, qcow2_header
from tests.support.properties import always


def test_a_qcow2_disk_tells_the_size_that_a_guest_sees(tmp_path: Path) -> None:
    """Not the size of the file."""
    found = inspect(a_qcow2(tmp_path / "a.qcow2", size=10 * GIB + 1))
    assert found == Disk(format=Format.QCOW2, virtual_size=10 * GIB + 1)
    assert found.boot_disk_gib == 11


def test_a_qcow2_disk_of_version_2_has_no_feature_bits(tmp_path: Path) -> None:
    """What stands there is something else."""
    path = tmp_path / "old"
    path.write_bytes(qcow2_header(version=2, features=0xFF) + b"\0" * 1000)
    assert inspect(path).format is Format.QCOW2


@pytest.mark.parametrize(("length", "gib"), [(512, 1), (GIB, 1), (GIB + 512, 2)])
def test_a_raw_disk_is_as_large_as_its_file(tmp_path: Path, length: int, gib: int) -> None:
    """Rounded up to GiB for the boot disk."""
    found = inspect(a_raw_disk(tmp_path / "disk.img", length))
    assert (found.format, found.virtual_size, found.boot_disk_gib) == (Format.RAW, length, gib)


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_guid_partition_table_is_enough(tmp_path: Path, sector: int) -> None:
    """With sectors of both sizes."""
    path = tmp_path / "gpt"
    path.write_bytes((b"\0" * sector + b"EFI PART").ljust(8192, b"\0"))
    assert inspect(path).format is Format.RAW


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (qcow2_header(version=1), "version is 1"),
        (qcow2_header(backing=104), "backing file"),
        (qcow2_header(features=4), "data is in another file"),
        (qcow2_header(encryption=2), "encrypted"),
        (qcow2_header(features=1), "damaged"),
        (qcow2_header(features=2), "damaged"),
        (qcow2_header(bits=3), "makes no sense"),
        (qcow2_header(size=0), "makes no sense"),
        (qcow2_header(tables=1 << 30), "cut off"),
        (qcow2_header()[:40], "ends within its qcow2 header"),
        (qcow2_header()[:76], "ends within its qcow2 header"),
    ],
)
def test_a_qcow2_disk_that_no_platform_can_use(tmp_path: Path, header: bytes, said: str) -> None:
    """Each with its own reason."""
    path = tmp_path / "bad.qcow2"
    path.write_bytes(header if said.startswith("ends") else header.ljust(2048, b"\0"))
    with pytest.raises(Unusable, match=said) as caught:
        inspect(path)
    assert str(path) in str(caught.value)


ISO = b"\0" * 510 + b"\x55\xaa" + b"\0" * (32769 - 512) + b"CD001"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (ISO.ljust(40960, b"\0"), r"CD-ROM image \(\.iso\)"),
        (b"KDMV", "VMDK"),
        (b"# Disk DescriptorFile", "VMDK"),
        (b"vhdxfile", "VHDX"),
        (b"conectix", "VHD"),
        (b"<<< Oracle >>>".ljust(64, b"\0") + b"\x7f\x10\xda\xbe", "VDI"),
        (b"QED\0", "QED"),
        (b"\x1f\x8b", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh9", "bzip2"),
        (b"PK\x03\x04", "zip"),
        (b"disk.ovf".ljust(257, b"\0") + b"ustar", "tar"),
        (b"#!/bin/sh\n", "neither a qcow2 disk nor a raw disk"),
        (b"", "empty"),
        (b"\0" * 510 + b"\x55\xaa" + b"\0" * 7, "cut off"),
    ],
)
def test_anything_else_is_named_with_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    """A hybrid .iso has a boot record as well, and is a CD-ROM all the same."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Unusable, match=said):
        inspect(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    """A folder, and nothing."""
    with pytest.raises(Unusable, match="is not a file"):
        inspect(tmp_path)
    with pytest.raises(Unusable, match="No such file"):
        inspect(tmp_path / "none")


@always
@given(st.binary(max_size=200), st.booleans())
def test_no_content_is_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, qcow2: bool
) -> None:
    """Either a disk or a reason."""
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes((b"QFI\xfb" if qcow2 else b"") + content)
    try:
        found = inspect(path)
    except Unusable:
        return
    assert found.virtual_size > 0
