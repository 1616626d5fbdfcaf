"""Disk images for tests: small, deterministic, and real enough for their readers."""

import random
import struct
from pathlib import Path

GIB = 1 << 30


def qcow2_header(  # noqa: PLR0917 - the fields of the format
    size: int = 3 * GIB,
    version: int = 3,
    backing: int = 0,
    bits: int = 16,
    encryption: int = 0,
    features: int = 0,
    tables: int = 512,
) -> bytes:
    """Return the first 104 bytes of a qcow2 disk whose tables end at ``tables``."""
    head = struct.pack(
        ">4sIQIIQIIQQIIQ", b"QFI\xfb", version, backing, 0, bits, size, encryption, 1, tables - 8,
        tables - 16, 1, 0, 0,
    )  # fmt: skip
    return head + struct.pack(">QQQII", features, 0, 0, 4, 104)


def a_qcow2(path: Path, *, length: int = 10_000, seed: int = 0, size: int = 3 * GIB) -> Path:
    """Write a qcow2 disk of ``size`` bytes into a file of ``length`` bytes."""
    head = qcow2_header(size)
    path.write_bytes(head + random.Random(seed).randbytes(length - len(head)))
    return path


def a_raw_disk(path: Path, length: int) -> Path:
    """Write a sparse raw disk with a boot record."""
    with path.open("wb") as file:
        file.truncate(length)
        file.seek(510)
        file.write(b"\x55\xaa")
    return path
