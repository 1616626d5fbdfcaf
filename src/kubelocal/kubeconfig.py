"""Kubeconfig files: an identity, a server, one context."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import yaml

from kubelocal.pki import write_secret

if TYPE_CHECKING:
    from pathlib import Path

    from kubelocal.pki import Pair


def with_certificate(url: str, ca_pem: str, pair: Pair) -> dict[str, str]:
    """Describe a user who is known by a client certificate."""
    return _server(url, ca_pem) | {
        "client-certificate-data": _b64(pair.certificate),
        "client-key-data": _b64(pair.key),
    }


def with_token(url: str, ca_pem: str, token: str) -> dict[str, str]:
    """Describe a user who is known by a bearer token."""
    return _server(url, ca_pem) | {"token": token}


def write(path: Path, user: str, fields: dict[str, str], namespace: str = "default") -> Path:
    """Write what `with_certificate` or `with_token` gave as a kubeconfig; owner only."""
    server = {key: fields[key] for key in ("server", "certificate-authority-data")}
    identity = {key: value for key, value in fields.items() if key not in server}
    context = {"cluster": "kubelocal", "user": user, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubelocal", "cluster": server}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": "kubelocal", "context": context}],
        "current-context": "kubelocal",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_secret(path, yaml.safe_dump(config, sort_keys=False))
    return path


def _server(url: str, ca_pem: str) -> dict[str, str]:
    return {"server": url, "certificate-authority-data": _b64(ca_pem)}


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
