"""The commands of a cloud-config document: which of them is kubeadm's, and what it reads."""

import re

from capvco.bootstrap.document import Document

_KUBEADM = re.compile(r"\bkubeadm\s+(?:init|join)\b(?P<arguments>[^;&|\n]*)")
_CONFIG = re.compile(r"(?<!\S)--config(?:\s+|=)(?P<quote>['\"]?)(?P<path>[^\s'\"]+)(?P=quote)")


def is_kubeadm(command: object) -> bool:
    """Find kubeadm's own line: the user's commands before it may prepare what we need."""
    return _KUBEADM.search(_text(command)) is not None


def calls_kubeadm(document: Document) -> bool:
    """Say whether kubeadm is among the commands: other ways to a node exist."""
    return any(map(is_kubeadm, _commands(document)))


def config_paths(document: Document) -> frozenset[str]:
    """Return which files kubeadm is told to read."""
    calls = (call for c in _commands(document) for call in _KUBEADM.finditer(_text(c)))
    return frozenset(
        found["path"] for call in calls for found in _CONFIG.finditer(call["arguments"])
    )


def _commands(document: Document) -> list[object]:
    found = document.get("runcmd")
    return found if isinstance(found, list) else []


def _text(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list) else str(command)
