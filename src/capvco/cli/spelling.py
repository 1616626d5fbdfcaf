"""Flags as Go programs write them, with one hyphen."""

from collections.abc import Sequence
from dataclasses import fields


def spelled(tokens: Sequence[str], options: type) -> list[str]:
    """Take ``-location X`` for ``--location X``; ``options`` is the dataclass of all flags."""
    names = {f"-{field.name.strip('_').replace('_', '-')}" for field in fields(options)}
    names.add("-help")
    return [f"-{t}" if t.partition("=")[0] in names else t for t in tokens]
