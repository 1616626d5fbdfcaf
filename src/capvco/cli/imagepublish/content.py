"""The file that is published: read piece by piece, and watched for changes."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from capvco.cli.unusable import Unusable
from capvco.vco.call import Stream

_PIECE = 512 * 1024
"""How much of the file is in memory at once, per location."""

Told = Callable[[int], None]
"""Hears how many bytes are done."""


class FileChanged(Exception):  # noqa: N818 - reads as what happened
    """The file is not what it was when the run began: parts of two files would be mixed."""


@dataclass(frozen=True)
class Content:
    """An open file. It stays the same one if another takes its name meanwhile."""

    path: Path
    descriptor: int
    size: int
    modified: int

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file. Raises Unusable."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Unusable(f"the image {path} cannot be read: {error.strerror}") from error
        found = os.fstat(descriptor)
        return cls(path, descriptor, found.st_size, found.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.descriptor)

    def check(self) -> None:
        """Raise FileChanged if somebody wrote to the file since it was opened."""
        found = os.fstat(self.descriptor)
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            raise FileChanged(
                f"{self.path} was changed while it was being published;"
                " publish it when nothing writes to it any more"
            )

    async def md5(self, told: Told) -> str:
        """Return the MD5 of the whole file."""
        digest = hashlib.md5(usedforsecurity=False)
        async for piece in self._pieces(0, self.size, told):
            await asyncio.to_thread(digest.update, piece)
        self.check()
        return digest.hexdigest()

    def parts(self, part_size: int) -> int:
        """Count the parts of a size."""
        return -(-self.size // part_size)

    def part(self, number: int, part_size: int, told: Told) -> Stream:
        """Return a part, counted from 1; the last one may be shorter."""
        start = (number - 1) * part_size
        end = min(start + part_size, self.size)
        return Stream(end - start, lambda: self._pieces(start, end, told))

    async def _pieces(self, start: int, end: int, told: Told) -> AsyncIterator[bytes]:
        at = start
        while at < end:
            piece = await asyncio.to_thread(os.pread, self.descriptor, min(_PIECE, end - at), at)
            if not piece:
                self.check()
                raise FileChanged(f"{self.path} ends at {at}, before its own size")
            yield piece
            at += len(piece)
            told(at - start)
