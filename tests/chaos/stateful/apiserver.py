"""A small client of the API server, as the administrator: what a user and Cluster API would do."""

import ssl
from types import TracebackType
from typing import Self

import httpx2

from kubelocal import LocalCluster
from tests.support.scenario import CAPI, INFRA, Object

_MERGE = "application/merge-patch+json"


class Apiserver:
    """The verbs in one namespace. Safe to use from several threads."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        pki = cluster.directory / "pki"
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self.namespace = namespace
        self._http = httpx2.Client(
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
        self._http.close()

    def create(self, plural: str, body: Object) -> Object:
        """Make an object; returns it as it is then."""
        made = self._call("POST", self._path(plural), json=body)
        assert made is not None
        return made

    def get(self, plural: str, name: str) -> Object | None:
        """Return an object, None if there is none."""
        return self._call("GET", self._path(plural, name))

    def items(self, plural: str) -> list[Object]:
        """Return all objects of a kind."""
        found = self._call("GET", self._path(plural)) or {}
        items: list[Object] = found["items"]
        return items

    def merge(self, plural: str, name: str, body: Object) -> None:
        """Change an object, or a subresource of one, by a merge patch; none is no matter."""
        headers = {"Content-Type": _MERGE}
        self._call("PATCH", self._path(plural, name), json=body, headers=headers)

    def delete(self, plural: str, name: str = "") -> None:
        """Ask for the deletion of an object, or of all of a kind; none is no matter."""
        self._call("DELETE", self._path(plural, name))

    def _path(self, plural: str, name: str = "") -> str:
        if plural == "secrets":
            base = "/api/v1"
        elif plural.startswith("vco"):
            base = f"/apis/{INFRA}/v1beta1"
        else:
            base = f"/apis/{CAPI}/v1beta2"
        path = f"{base}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def _call(
        self,
        method: str,
        path: str,
        *,
        json: Object | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object | None:
        answer = self._http.request(method, path, json=json, headers=headers)
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        found: Object = answer.json()
        return found
