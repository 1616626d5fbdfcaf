"""What kind of disk image a file is, and how large the disk in it; read from its first bytes."""

import os
import struct
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from capvco.cli.unusable import Unusable

GIB = 1 << 30
_HEAD = 34 * 1024
"""Enough for the signature of a CD-ROM, which begins after 32 KiB."""
_SECTOR = 512
_QCOW2 = b"QFI\xfb"
_CLUSTER_BITS = range(9, 22)
_DIRTY, _CORRUPT, _EXTERNAL = 1, 2, 4

_CONVERT = "convert it: qemu-img convert -O qcow2 IN OUT.qcow2"
_UNPACK = "unpack it first"
_OTHERS: tuple[tuple[int, bytes, str, str], ...] = (
    (32769, b"CD001", "a CD-ROM image (.iso)", "install it on a disk, or take the cloud image"),
    (0, b"KDMV", "a VMDK disk", _CONVERT),
    (0, b"# Disk DescriptorFile", "the description of a VMDK disk", _CONVERT),
    (0, b"vhdxfile", "a VHDX disk", _CONVERT),
    (0, b"conectix", "a VHD disk", _CONVERT),
    (64, b"\x7f\x10\xda\xbe", "a VDI disk", _CONVERT),
    (0, b"QED\x00", "a QED disk", _CONVERT),
    (0, b"\x1f\x8b", "compressed by gzip", _UNPACK),
    (0, b"\xfd7zXZ\x00", "compressed by xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (0, b"BZh", "compressed by bzip2", _UNPACK),
    (0, b"PK\x03\x04", "a zip archive", _UNPACK),
    (257, b"ustar", "a tar archive", "unpack it first (an .ova holds a VMDK disk)"),
)


class Format(StrEnum):
    """The formats that the platform takes."""

    QCOW2 = "qcow2"
    RAW = "raw"


class Disk(Struct, frozen=True, kw_only=True):
    """A disk image: its format, and the size in bytes that a guest sees."""

    format: Format
    virtual_size: int

    @property
    def boot_disk_gib(self) -> int:
        """The smallest boot disk that it fits on."""
        return max(1, -(-self.virtual_size // GIB))


class _Header(Struct, frozen=True, kw_only=True):
    """The fields of a qcow2 header that matter here."""

    version: int
    backing_offset: int
    cluster_bits: int
    size: int
    encryption: int
    l1_entries: int
    l1_offset: int
    refcounts_offset: int
    features: int


def inspect(path: Path) -> Disk:
    """Read what a file holds. Raises Unusable with what it is instead, and what to do."""
    if path.exists() and not path.is_file():
        raise Unusable(f"the image {path} is not a file")
    try:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            return _disk(path, file, length)
    except OSError as error:
        raise Unusable(f"the image {path} cannot be read: {error.strerror}") from error


def _disk(path: Path, file: BinaryIO, length: int) -> Disk:
    if not length:
        raise Unusable(f"the image {path} is empty")
    head = file.read(_HEAD)
    for offset, signature, what, cure in _OTHERS:
        if head.startswith(signature, offset):
            raise Unusable(f"{path} is {what}; qcow2 and raw disks can be published: {cure}")
    if head.startswith(_QCOW2):
        return _qcow2(path, head, length)
    return _raw(path, head, length)


def _qcow2(path: Path, head: bytes, length: int) -> Disk:
    try:
        header = _header(head)
    except struct.error:
        raise Unusable(f"{path} ends within its qcow2 header: copy or build it anew") from None
    for wrong, text in _faults(header, length):
        if wrong:
            raise Unusable(f"{path} is a qcow2 disk that cannot be published: {text}")
    return Disk(format=Format.QCOW2, virtual_size=header.size)


def _header(head: bytes) -> _Header:
    version, backing, _, bits, size, crypt, l1_entries, l1_offset, refcounts = struct.unpack_from(
        ">IQIIQIIQQ", head, 4
    )
    features = struct.unpack_from(">Q", head, 72)[0] if version > 2 else 0  # noqa: PLR2004 - the version that has them
    return _Header(
        version=version,
        backing_offset=backing,
        cluster_bits=bits,
        size=size,
        encryption=crypt,
        l1_entries=l1_entries,
        l1_offset=l1_offset,
        refcounts_offset=refcounts,
        features=features,
    )


def _faults(header: _Header, length: int) -> Iterable[tuple[bool, str]]:
    yield (
        header.version not in (2, 3),
        f"its version is {header.version}, known are 2 and 3",
    )
    yield (
        bool(header.backing_offset),
        "it is only the difference to a backing file; join both: qemu-img convert -O qcow2 IN OUT",
    )
    yield (
        bool(header.features & _EXTERNAL),
        "its data is in another file; join both: qemu-img convert -O qcow2 IN OUT",
    )
    yield bool(header.encryption), "it is encrypted"
    yield (
        bool(header.features & (_DIRTY | _CORRUPT)),
        "it is marked as damaged, or in use: end what uses it, then qemu-img check -r all IN",
    )
    yield (
        header.cluster_bits not in _CLUSTER_BITS or not header.size,
        f"its header makes no sense (disk of {header.size} bytes): build it anew",
    )
    end = max(header.l1_offset + 8 * header.l1_entries, header.refcounts_offset + 1)
    yield end > length, f"it is cut off (its tables end at {end}, the file at {length}): copy anew"


def _raw(path: Path, head: bytes, length: int) -> Disk:
    """Accept what begins like a disk: with a master boot record or a GUID partition table."""
    partitioned = head[510:512] == b"\x55\xaa" or any(
        head.startswith(b"EFI PART", sector) for sector in (_SECTOR, 4096)
    )
    if not partitioned:
        raise Unusable(
            f"{path} is neither a qcow2 disk nor a raw disk with a partition table;"
            " see what it is with: qemu-img info FILE"
        )
    if length % _SECTOR:
        raise Unusable(
            f"{path} is a raw disk of {length} bytes, which is no whole number of sectors:"
            " it is cut off; copy it anew"
        )
    return Disk(format=Format.RAW, virtual_size=length)
