"""The file, piece by piece."""

import hashlib
import os
from pathlib import Path

import pytest

from capvco.cli.imagepublish.content import Content, FileChanged
from capvco.cli.unusable import Unusable
from capvco.vco.call import Stream
from tests.support.disks import a_qcow2

LENGTH = 1_500_001


async def read(stream: Stream) -> bytes:
    return b"".join([piece async for piece in stream.open()])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return a_qcow2(tmp_path / "a.qcow2", length=LENGTH)


@pytest.fixture
def whole(path: Path) -> bytes:
    return path.read_bytes()


@pytest.mark.parametrize("part_size", [1, 999, 700_000, LENGTH - 1, LENGTH, LENGTH + 1])
async def test_parts_are_the_file(path: Path, whole: bytes, part_size: int) -> None:
    """All together, each of the size but the last, and readable again."""
    with Content.open(path) as content:
        count = content.parts(part_size)
        assert count == -(-LENGTH // part_size)
        numbers = {1, 2, count - 1, count} & set(range(1, count + 1))
        for number in numbers:
            start = (number - 1) * part_size
            stream = content.part(number, part_size, lambda _: None)
            assert await read(stream) == await read(stream) == whole[start : start + part_size]
            assert stream.length == len(whole[start : start + part_size])


async def test_the_md5_is_that_of_the_file_and_progress_is_told(path: Path, whole: bytes) -> None:
    """In pieces, up to the end."""
    told = list[int]()
    with Content.open(path) as content:
        found = await content.md5(told.append)
    assert found == hashlib.md5(whole).hexdigest()
    assert told == sorted(told)
    assert told[-1] == LENGTH
    assert len(told) > 2


async def test_another_file_of_that_name_changes_nothing(path: Path) -> None:
    """What was opened is what is published."""
    with Content.open(path) as content:
        before = await content.md5(lambda _: None)
        a_qcow2(path.with_suffix(".new"), seed=1).replace(path)
        assert await content.md5(lambda _: None) == before


async def test_a_file_that_is_written_to_is_noticed(path: Path) -> None:
    """Longer, shorter, or touched."""
    with Content.open(path) as content:
        os.utime(path, ns=(0, 0))
        with pytest.raises(FileChanged, match="was changed"):
            content.check()
    with Content.open(path) as content:
        os.truncate(path, 1000)
        with pytest.raises(FileChanged):
            await read(content.part(1, LENGTH, lambda _: None))


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """Says which."""
    with pytest.raises(Unusable, match="none"):
        Content.open(tmp_path / "none")
