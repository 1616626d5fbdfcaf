"""A small client of the apiserver for tests of admission: what was said, and nothing hidden."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client, ConnectionParams
from msgspec import Struct, convert

GROUP = "infrastructure.cluster.x-k8s.io/v1beta1"
PLURALS = {
    "VCOCluster": "vcoclusters",
    "VCOClusterTemplate": "vcoclustertemplates",
    "VCOMachine": "vcomachines",
    "VCOMachineTemplate": "vcomachinetemplates",
}

Json = dict[str, object]


class Answer(Struct, frozen=True):
    """What the apiserver answered."""

    status: int
    body: Json

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def said(self) -> str:
        return "accepted" if self.accepted else str(self.body.get("message"))

    def part(self, path: str) -> object:
        """Return a field by its path, None where it is absent."""
        found: object = self.body
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found


class Apiserver:
    """The verbs on our kinds in one namespace, unknown fields refused as kubectl does."""

    def __init__(self, http: httpx2.Client, namespace: str) -> None:
        self._http = http
        self.namespace = namespace

    def create(
        self, kind: str, name: str, spec: Mapping[str, object], **metadata: object
    ) -> Answer:
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        return self._send("POST", kind, "", body, "application/json")

    def patch(self, kind: str, name: str, body: Mapping[str, object], **parameters: str) -> Answer:
        return self._send("PATCH", kind, f"/{name}", body, _MERGE, **parameters)

    def patch_status(self, kind: str, name: str, status: Mapping[str, object]) -> Answer:
        return self._send("PATCH", kind, f"/{name}/status", {"status": status}, _MERGE)

    def apply(
        self, kind: str, name: str, body: Mapping[str, object], *, manager: str, **parameters: str
    ) -> Answer:
        """Apply server-side, as Cluster API does: with force."""
        parameters |= {"fieldManager": manager, "force": "true"}
        identity = {"name": name.partition("/")[0]}
        body = {**body, "metadata": convert(body.get("metadata", {}), Json) | identity}
        return self._send("PATCH", kind, f"/{name}", body, _APPLY, **parameters)

    def get(self, kind: str, name: str) -> Answer:
        return self._send("GET", kind, f"/{name}", None, "application/json")

    def delete(self, kind: str, name: str) -> Answer:
        return self._send("DELETE", kind, f"/{name}", None, "application/json")

    def post(self, path: str, body: Mapping[str, object]) -> Answer:
        """Create an object of any kind, such as a review."""
        return _answer(self._http.post(path, json=body))

    def _send(
        self,
        verb: str,
        kind: str,
        rest: str,
        body: Mapping[str, object] | None,
        type_: str,
        **parameters: str,
    ) -> Answer:
        path = f"/apis/{GROUP}/namespaces/{self.namespace}/{PLURALS[kind]}{rest}"
        content = None if body is None else {"apiVersion": GROUP, "kind": kind} | dict(body)
        strict = {} if body is None else {"fieldValidation": "Strict"}
        response = self._http.request(
            verb, path, json=content, headers={"Content-Type": type_}, params=strict | parameters
        )
        return _answer(response)


_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"


def _answer(response: httpx2.Response) -> Answer:
    return Answer(response.status_code, convert(response.json(), Json))


@contextmanager
def connected(kubeconfig: Path) -> Iterator[httpx2.Client]:
    """Open a connection with the rights of a kubeconfig."""
    config = KubeConfig.from_file(kubeconfig).get()
    assert config is not None
    with Client(config, ConnectionParams(trust_env=False)) as http:
        yield http
