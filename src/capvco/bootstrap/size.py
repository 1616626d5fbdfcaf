"""How large user data is as the platform takes it, and what is done if it is too large; pure."""

import msgspec
from msgspec import Struct

from capvco.bootstrap.content import packing
from capvco.bootstrap.document import Document, UserDataError

_ENCODING = "gzip+base64"
_PACKING = packing(_ENCODING)


class _Saving(Struct, frozen=True, order=True):
    """What packing a file would save."""

    size: int
    at: int
    """The file's place in write_files."""


def fitted(document: Document, limit: int) -> Document:
    """Return a document of at most so many bytes, as JSON. Raises UserDataError.

    One within the limit is returned as it is. In a larger one plain files are packed, those first
    that save most, and no more of them than must be: cloud-init unpacks them to the same files.
    """
    size = _size(document)
    files = document.get("write_files")
    for saving in sorted(_savings(files), reverse=True) if size > limit else ():
        files = [_packed(e) if i == saving.at else e for i, e in enumerate(files or ())]
        size -= saving.size
        if size <= limit:
            break
    if size > limit:
        raise UserDataError(
            f"with CAPVCO's own parts it has {size} bytes as JSON, with its files packed, and the"
            f" limit is {limit}: shorten the files of the bootstrap configuration, or let the node"
            " fetch them; if the platform takes more, raise the manager's --max-user-data"
        )
    return document if files is document.get("write_files") else {**document, "write_files": files}


def _size(part: object) -> int:
    return len(msgspec.json.encode(part))


def _savings(files: object) -> list[_Saving]:
    if not isinstance(files, list):
        return []
    found = ((_size(entry) - _size(_packed(entry)), at) for at, entry in enumerate(files))
    return [_Saving(size, at) for size, at in found if size > 0]


def _packed(entry: object) -> object:
    """Return a plain file packed; anything else as it is."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        return entry
    if entry.get("encoding") not in (None, "", "text/plain"):
        return entry
    return {**entry, "encoding": _ENCODING, "content": _PACKING.pack(entry["content"])}
