"""What the real kubeadm bootstrap provider writes, recorded in tests/data/bootstrap.

Keys, certificates and tokens are left out of the records: they are new each time. An envtest makes
them anew and compares; with RECORD=1 in its environment it writes them.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "bootstrap"
HOSTNAME = "worker-1"
VERSIONS = {"v1.28.15": "v1beta3", "v1.31.14": "v1beta4", "v1.36.3": "v1beta4"}
"""Versions of Kubernetes, and the version of kubeadm's API that each is configured in."""
ROLES = ("init", "control-plane", "worker")
NAMES = (*(f"{role}-{version}" for version in VERSIONS for role in ROLES), "plain-worker-v1.36.3")

_LEFT_OUT = (
    (
        re.compile(
            r"-----BEGIN ([A-Z ]+)-----\n(?:\s+[\w+/=]+\n)+\s+-----END \1-----", re.MULTILINE
        ),
        r"(\1 left out)",
    ),
    (re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"), "abcdef.0123456789abcdef"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), f"sha256:{'0' * 64}"),
)


def recorded(name: str) -> bytes:
    """Return a record."""
    return _path(name).read_bytes()


def record(name: str, data: bytes) -> None:
    """Write one."""
    _path(name).write_bytes(comparable(data))


def comparable(data: bytes) -> bytes:
    """Leave out what is new each time."""
    text = data.decode()
    for pattern, instead in _LEFT_OUT:
        text = pattern.sub(instead, text)
    return text.encode()


def _path(name: str) -> Path:
    return FOLDER / f"{name}.yaml"
