"""A small client of the cluster's API server, for what is quicker without kubectl."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import httpx2

from kubelocal.errors import KubelocalError

if TYPE_CHECKING:
    from pathlib import Path

# A Kubernetes object as JSON has it: an open document, so its values are of any type.
Object = dict[str, Any]


class Refused(KubelocalError):  # noqa: N818 - reads as what happened
    """The API server answered with an error."""

    def __init__(self, what: str, status: int, message: str) -> None:
        super().__init__(f"{what}: {status} {message}")
        self.status = status


class Api:
    """Calls the API server as the administrator. Safe to use from several threads."""

    def __init__(self, url: str, ca_pem: str, certificate: Path, key: Path) -> None:
        context = ssl.create_default_context(cadata=ca_pem)
        context.load_cert_chain(certificate, key)
        self._client = httpx2.Client(base_url=url, verify=context, timeout=30, trust_env=False)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def ready(self) -> bool:
        """Whether `/readyz` says so."""
        try:
            return self._client.get("/readyz", timeout=5).status_code == httpx2.codes.OK
        except httpx2.HTTPError:
            return False

    def get(self, path: str) -> Object:
        """Read an object or a list; raises Refused."""
        return self._call("GET", path)

    def find(self, path: str) -> Object | None:
        """Read an object; None where it is not there; raises Refused for anything else."""
        try:
            return self._call("GET", path)
        except Refused as refused:
            if refused.status == httpx2.codes.NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at `path`; raises Refused."""
        return self._call("POST", path, body)

    def replace(self, path: str, body: Object) -> Object:
        """Replace the object at `path`; raises Refused."""
        return self._call("PUT", path, body)

    def _call(self, method: str, path: str, body: Object | None = None) -> Object:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise Refused(f"{method} {path}", 0, str(error) or type(error).__name__) from error
        if answer.is_error:
            raise Refused(f"{method} {path}", answer.status_code, _message(answer))
        found: Object = answer.json()
        return found


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]
