"""A cloud-config document as data: read from YAML, checked for what JSON can carry.

No message ever shows the text itself: it holds tokens and private keys.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

# A YAML document is a tree of scalars, lists and mappings, whatever the user wrote.
Document = dict[str, Any]

_QUOTED = re.compile(r"['\"](?=\S*\w\S*\w).*", re.DOTALL)
LIMIT = 4 << 20
"""Size that a document may have with its aliases written out, far more than any Secret holds."""
_VALUE = 64
"""What a value counts, beside its characters."""
# What YAML or Python raise for a value that does not fit its tag, or for endless nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UserDataError(Exception):
    """The bootstrap data cannot be used; the message says why and what to do."""


def parse(text: str) -> Document:
    """Read a cloud-config document. Raises UserDataError."""
    if not text.lstrip().startswith("#cloud-config"):
        raise UserDataError(
            "the bootstrap data does not begin with #cloud-config; shell scripts and multi-part"
            " documents are not supported"
        )
    try:
        document = yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader, the fast one if built
    except YAML_ERRORS as error:
        raise UserDataError(f"the bootstrap data is not valid YAML{_explain(error)}") from None
    if not isinstance(document, dict):
        raise UserDataError("the bootstrap data is not a cloud-config mapping")
    _check_is_data(document)
    return document


def as_list(document: Document, key: str) -> list[object]:
    """Return a list of a document, empty if there is none. Raises UserDataError."""
    found = document.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise UserDataError(f"{key} of the bootstrap data is not a list")
    return found


def _explain(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = f" at line {mark.line + 1}" if mark else ""
    # What is quoted may be content.
    said = _QUOTED.sub("\u2026", problem) if problem else "a value does not fit its type"
    return f"{line}: {said}"


def _check_is_data(document: Document) -> None:
    """Raise for what the platform's JSON cannot carry: better now than once GPUs are paid for."""
    size = 0
    try:
        for value in _values(document):
            if isinstance(value, bytes):
                raise UserDataError(
                    "the bootstrap data has a value tagged !!binary: write it as text, with"
                    " encoding: base64 beside the content of a file"
                )
            # YAML says a part once and means it often: a few lines can be terabytes.
            size += _VALUE + (len(value) if isinstance(value, str) else 0)
            if size > LIMIT:
                raise UserDataError(
                    "the bootstrap data is too large once its YAML aliases are written out"
                )
        msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError):
        raise UserDataError(
            "the bootstrap data has what JSON cannot carry: a key that is no text, or a part that"
            " contains itself"
        ) from None


def _values(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _values(inner)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _values(inner)
