"""User data within the platform's limit: measured, packed where it must be, else refused."""

import base64
import gzip
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.bootstrap.userdata import Document, UserDataError, fitted
from tests.support.properties import always

RANDOM = random.Random(7)


def size(document: Document) -> int:
    return len(msgspec.json.encode(document))


def a_file(length: int, **more: object) -> dict[str, Any]:
    """A file that packs well."""
    return {"path": "/etc/x", "content": "line\n" * (length // 5), **more}


def unpacked(entry: dict[str, Any]) -> str:
    if entry.get("encoding") == "gzip+base64":
        return gzip.decompress(base64.b64decode(entry["content"])).decode()
    return str(entry["content"])


def test_within_the_limit() -> None:
    """A document of the limit stays as it is."""
    document = {"write_files": [a_file(5000)]}
    assert fitted(document, size(document)) is document


def test_one_byte_too_many() -> None:
    """Then the file that saves most is packed, and the others stay plain."""
    before = [a_file(500), a_file(5000), "odd", a_file(400)]
    document = {"write_files": before, "runcmd": ["x"]}
    after = fitted(document, size(document) - 1)
    assert size(after) < size(document)
    files = after["write_files"]
    assert [files[0], *files[2:]] == [before[0], *before[2:]]
    assert files[1]["encoding"] == "gzip+base64"
    assert unpacked(files[1]) == a_file(5000)["content"]
    assert after["runcmd"] == ["x"]


def test_as_many_as_must_be() -> None:
    """The next one follows where one is not enough; rights, owner and append stay."""
    more = {"permissions": "0600", "owner": "a:b", "append": True, "encoding": "text/plain"}
    document = {"write_files": [a_file(5000), a_file(4000, **more)]}
    after = fitted(document, 600)
    files = after["write_files"]
    assert [unpacked(entry) for entry in files] == ["line\n" * 1000, "line\n" * 800]
    assert {**files[1], "content": 0} == {
        "path": "/etc/x",
        **more,
        "encoding": "gzip+base64",
        "content": 0,
    }


def test_what_is_packed_already_stays() -> None:
    """Packing twice saves nothing, and what an encoding means is cloud-init's to say."""
    packed = base64.b64encode(RANDOM.randbytes(3000)).decode()
    entry = {"path": "/etc/x", "encoding": "b64", "content": packed}
    document = {"write_files": [entry, a_file(5000)]}
    assert fitted(document, size(document) - 1)["write_files"][0] == entry


def test_too_large_all_the_same() -> None:
    """The message has the numbers and what to do, and nothing of the content."""
    noise = "".join(RANDOM.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4000))
    document = {"write_files": [{"path": "/etc/x", "content": noise}]}
    with pytest.raises(UserDataError) as caught:
        fitted(document, 1000)
    said = str(caught.value)
    assert " bytes as JSON, with its files packed, and the limit is 1000: shorten" in said
    assert "--max-user-data" in said
    assert noise[:10] not in said


@pytest.mark.parametrize(
    "document",
    [
        {"runcmd": ["x" * 100]},
        {"write_files": None, "runcmd": ["x" * 100]},
        {"write_files": {"x": "y" * 100}},
        {
            "write_files": [
                "x" * 100,
                {"content": 5},
                {"path": "/x" * 50},
                {"content": "\u20ac" * 9},
            ]
        },
    ],
)
def test_nothing_to_pack(document: Document) -> None:
    """A byte is a byte, and a letter may have several."""
    limit = size(document) - 1
    with pytest.raises(UserDataError, match=f"has {limit + 1} bytes as JSON"):
        fitted(document, limit)


CONTENT = st.one_of(st.text(max_size=300), st.text("ab\n", min_size=200, max_size=2000))
ENTRY = st.one_of(
    st.fixed_dictionaries({"path": st.just("/x"), "content": CONTENT}), st.text(), st.none()
)


@always
@given(st.lists(ENTRY, max_size=5), st.integers(0, 2000))
def test_any_document(entries: list[Any], limit: int) -> None:
    """What comes out is within the limit, and unpacks to what went in."""
    document = {"write_files": entries, "runcmd": ["a"]}
    try:
        after = fitted(document, limit)
    except UserDataError:
        return
    assert size(after) <= limit or after is document
    assert size(after) <= limit
    for old, new in zip(entries, after["write_files"], strict=True):
        if isinstance(old, dict):
            assert unpacked(new) == old["content"]
        else:
            assert new == old
