"""A small client of the API server, as the administrator: what makes the load and watches it."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from bench.objects import Object
    from bench.timeline import Round
    from kubelocal import LocalCluster

_BUSY_SECONDS = 0.5
_MERGE = "application/merge-patch+json"


class Kube:
    """Calls the API server. Safe to use from several threads; raises httpx2.HTTPError."""

    def __init__(self, cluster: LocalCluster) -> None:
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        pki = cluster.directory / "pki"
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._client = httpx2.Client(
            base_url=cluster.url, verify=context, timeout=60, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(self, path: str, **params: str) -> Object:
        """Read an object or a list."""
        return self._call("GET", path, params=params)

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at a path."""
        return self._call("POST", path, json=body)

    def merge(self, path: str, body: Object) -> Object:
        """Change an object by a merge patch."""
        return self._call("PATCH", path, json=body, headers={"Content-Type": _MERGE})

    def delete_all(self, path: str) -> None:
        """Ask for the deletion of everything in a collection."""
        self._call("DELETE", path)

    def rounds(self, path: str) -> Iterator[Round]:
        """Yield list and watch of a collection, anew whenever the API server ends the watch."""
        while True:
            answer = self._client.get(path)
            if answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
                time.sleep(_BUSY_SECONDS)  # the storage of the kind is being made anew
                continue
            answer.raise_for_status()
            yield answer.content, self._watch(path, answer.json()["metadata"]["resourceVersion"])

    def _watch(self, path: str, version: str) -> Iterator[bytes]:
        params = {"watch": "1", "resourceVersion": version}
        timeout = httpx2.Timeout(30, read=None)
        with self._client.stream("GET", path, params=params, timeout=timeout) as answer:
            if answer.is_success:  # else the list that follows says what is wrong
                for line in answer.iter_lines():
                    yield line.encode()

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        json: Object | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object:
        answer = self._client.request(method, path, params=params, json=json, headers=headers)
        if answer.is_error:
            raise httpx2.HTTPError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        found: Object = answer.json()
        return found
