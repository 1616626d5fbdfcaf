"""The content of a file of write_files, whatever it is packed in; pure."""

import base64
import binascii
import gzip
import zlib

from msgspec import Struct

LIMIT = 1 << 20
"""Bytes that a file may unpack to: what a Secret holds at most, unpacked by us."""
_BASE64 = ("b64", "base64")
_GZIP_BASE64 = ("gz+b64", "gz+base64", "gzip+b64", "gzip+base64")
_GZIP = ("gz", "gzip")


class Unreadable(Exception):  # noqa: N818 - an outcome, told in words
    """The content cannot be unpacked; the message says why, and never shows it."""


class Packing(Struct, frozen=True):
    """How cloud-init unpacks a file, by the name of its encoding."""

    base64: bool
    gzip: bool

    def unpack(self, content: str) -> str:
        """Return the text. Raises Unreadable."""
        if self.gzip and not self.base64:
            raise Unreadable("bytes of gzip are no text: write its encoding as gzip+base64")
        data = content.encode()
        if self.base64:
            try:
                data = base64.b64decode(data)
            except (binascii.Error, ValueError):
                raise Unreadable("it is not base64") from None
        if self.gzip:
            data = _unzip(data)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Unreadable("it is not UTF-8 text") from None

    def pack(self, text: str) -> str:
        """Return the text packed, the same each time."""
        if not self.base64:
            return text
        data = gzip.compress(text.encode(), mtime=0) if self.gzip else text.encode()
        return base64.b64encode(data).decode()


def packing(encoding: object) -> Packing:
    """Read an encoding as cloud-init does: what it does not know is plain text to it."""
    name = encoding.lower().strip() if isinstance(encoding, str) else ""
    return Packing(base64=name in (*_BASE64, *_GZIP_BASE64), gzip=name in (*_GZIP, *_GZIP_BASE64))


def _unzip(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        found = unpacker.decompress(data, LIMIT)
    except zlib.error:
        raise Unreadable("it is not gzip") from None
    if unpacker.unconsumed_tail:
        raise Unreadable(f"it unpacks to more than {LIMIT} bytes")
    if not unpacker.eof:
        raise Unreadable("its gzip data is cut off")
    if unpacker.unused_data:
        raise Unreadable("something follows its gzip data")
    return found
