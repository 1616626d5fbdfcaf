"""User data as a VM received it, in a form for people; pure."""

from typing import Any

import msgspec
import yaml

_SHOWN = 24
"""Characters of packed content that are shown."""

# A cloud-config document: open, so its values are of any type.
Document = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the library's
        super().increase_indent(flow, indentless=False)


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def readable(document: Document) -> str:
    """Return the document as YAML; of packed content the beginning and the length."""
    shown = {**document, "write_files": [_shortened(f) for f in document.get("write_files", [])]}
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def size(document: Document) -> int:
    """Return how many bytes it has as the platform takes it."""
    return len(msgspec.json.encode(document))


def _shortened(entry: Document) -> Document:
    content = entry.get("content", "")
    if not entry.get("encoding") or len(content) <= _SHOWN:
        return entry
    return {**entry, "content": f"{content[:_SHOWN]}\u2026 ({len(content)} characters)"}
