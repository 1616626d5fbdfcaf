"""The components of Cluster API, rendered from the module's own kustomizations and kept as JSON.

Kept once per recipe (what go.mod and go.sum say), so that a later start needs neither Go nor a
rendering. `local` turns them into what works with managers that run as plain processes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from kubelocal import golang
from kubelocal.catalogue import CERT_MANAGER_VERSION, CLUSTER_API_VERSION, MODULES
from kubelocal.errors import BuildFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kubelocal.progress import Progress
    from kubelocal.store import Entry, Store

# A Kubernetes object as JSON has it: an open document, so its values are of any type.
Object = dict[str, Any]

_RENDERING: Final = "2"
"""Changes whenever this module renders differently."""


@dataclass(frozen=True)
class Component:
    """One provider that comes with Cluster API itself."""

    label: str
    """Provider name with its type, as clusterctl names its folder."""
    name: str
    type: str
    file: str
    """Name clusterctl expects of the components file."""
    folder: str
    """Folder below the module's root whose `config/default` renders it."""
    tool: str
    """The tool of the catalogue that is its manager."""
    namespace: str
    service_account: str


CORE: Final = Component(
    "cluster-api",
    "cluster-api",
    "CoreProvider",
    "core-components.yaml",
    "core",
    "capi-core-manager",
    "capi-system",
    "capi-manager",
)
BOOTSTRAP: Final = Component(
    "bootstrap-kubeadm",
    "kubeadm",
    "BootstrapProvider",
    "bootstrap-components.yaml",
    "bootstrap/kubeadm",
    "capi-kubeadm-bootstrap-manager",
    "capi-kubeadm-bootstrap-system",
    "capi-kubeadm-bootstrap-manager",
)
CONTROL_PLANE: Final = Component(
    "control-plane-kubeadm",
    "kubeadm",
    "ControlPlaneProvider",
    "control-plane-components.yaml",
    "controlplane/kubeadm",
    "capi-kubeadm-control-plane-manager",
    "capi-kubeadm-control-plane-system",
    "capi-kubeadm-control-plane-manager",
)
COMPONENTS: Final = (CORE, BOOTSTRAP, CONTROL_PLANE)


@dataclass(frozen=True)
class Manifests:
    """What the cache holds: objects per component, metadata, and cert-manager's CRDs."""

    folder: Path

    def objects(self, component: Component) -> list[Object]:
        """Give the component's objects as upstream renders them."""
        return _load(self.folder / f"{component.label}.json")

    @property
    def metadata(self) -> str:
        """`metadata.yaml` for clusterctl, the same for all three."""
        return (self.folder / "metadata.yaml").read_text("utf-8")

    @property
    def cert_manager_crds(self) -> list[Object]:
        """The CRDs whose presence makes clusterctl count cert-manager as installed."""
        return _load(self.folder / "cert-manager-crds.json")


def _load(path: Path) -> list[Object]:
    found: list[Object] = json.loads(path.read_bytes())
    return found


def get(store: Store, kubectl: Path, env: Mapping[str, str], progress: Progress) -> Manifests:
    """Give the rendered manifests, rendering them first where the store has none.

    Raises NeedsGo or BuildFailed where they are not there and cannot be rendered.
    """
    key = f"manifests-{_recipe()}"
    with store.locked(key, lambda: progress.say("waiting for another process to render")):
        entry = store.get(key) or _make(store, key, kubectl, env, progress)
    return Manifests(entry.path)


def _recipe() -> str:
    digest = hashlib.sha256(_RENDERING.encode())
    for module in ("cluster-api", "cert-manager"):
        for name in ("go.mod", "go.sum"):
            digest.update((MODULES / module / name).read_bytes())
    return digest.hexdigest()[:16]


def _make(
    store: Store, key: str, kubectl: Path, env: Mapping[str, str], progress: Progress
) -> Entry:
    progress.say(f"rendering the components of Cluster API {CLUSTER_API_VERSION}")
    go = golang.find(env, store.root)
    capi = golang.module_folder(go, "cluster-api", "sigs.k8s.io/cluster-api", CLUSTER_API_VERSION)
    cert_manager = golang.module_folder(
        go, "cert-manager", "github.com/cert-manager/cert-manager", CERT_MANAGER_VERSION
    )
    crds = [
        yaml.load(path.read_bytes(), yaml.CSafeLoader)
        for path in sorted((cert_manager / "deploy" / "crds").glob("*.yaml"))
    ]
    with store.making(key, {"cluster-api": CLUSTER_API_VERSION}) as folder:
        for component in COMPONENTS:
            objects = _kustomize(kubectl, capi / component.folder / "config" / "default", folder)
            (folder / f"{component.label}.json").write_text(json.dumps(objects))
        (folder / "cert-manager-crds.json").write_text(json.dumps(crds))
        (folder / "metadata.yaml").write_text((capi / "metadata.yaml").read_text("utf-8"))
    entry = store.get(key)
    if entry is None:
        raise BuildFailed(f"the rendered manifests vanished from the cache {store.root}")
    return entry


def _kustomize(kubectl: Path, source: Path, home: Path) -> list[Object]:
    rendered = subprocess.run(
        [kubectl, "kustomize", source],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if rendered.returncode != 0:
        raise BuildFailed(f"`kubectl kustomize {source}` failed: {rendered.stderr.strip()}")
    return [found for found in yaml.load_all(rendered.stdout, yaml.CSafeLoader) if found]


def local(objects: list[Object], webhook_url: str, ca_bundle: str) -> list[Object]:
    """Point webhooks and conversions at a process on this machine, and drop the certificates.

    `webhook_url` is the manager's, without a path; `ca_bundle` the CA in base64. Deployments and
    Services stay: nothing runs them, and clusterctl wants to see them.
    """
    kept = [copy.deepcopy(found) for found in objects if found["kind"] not in _CERTIFICATES]
    for found in kept:
        for holder in _client_configs(found):
            service = holder["clientConfig"].pop("service", {})
            holder["clientConfig"] = {
                "url": webhook_url + service.get("path", "/"),
                "caBundle": ca_bundle,
            }
    return kept


_CERTIFICATES: Final = frozenset({"Certificate", "Issuer"})


def _client_configs(found: Object) -> list[Object]:
    if found["kind"].endswith("WebhookConfiguration"):
        webhooks: list[Object] = found["webhooks"]
        return webhooks
    if found["kind"] == "CustomResourceDefinition":
        conversion = found["spec"].get("conversion", {})
        return [conversion["webhook"]] if "webhook" in conversion else []
    return []


def documents(objects: list[Object]) -> str:
    """Write objects as one stream of YAML documents (each in JSON, which is YAML)."""
    return "".join(f"---\n{json.dumps(found)}\n" for found in objects)
