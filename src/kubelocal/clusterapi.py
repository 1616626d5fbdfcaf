"""Cluster API in a local cluster: `clusterctl init` from local folders, managers as processes."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import httpx2

from kubelocal import manifests
from kubelocal.api import Refused
from kubelocal.catalogue import CLUSTER_API_VERSION
from kubelocal.errors import StartFailed, UsageError
from kubelocal.manifests import BOOTSTRAP, COMPONENTS, CONTROL_PLANE, CORE
from kubelocal.ports import FindPorts, free_ports
from kubelocal.repository import CONFIG_FILE, init_flag, write_repository
from kubelocal.supervisor import lost_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kubelocal.api import Api
    from kubelocal.controlplane import ControlPlane
    from kubelocal.manifests import Component, Manifests, Object
    from kubelocal.options import Provider
    from kubelocal.supervisor import Supervisor
    from kubelocal.workspace import Workspace

_FEATURES: Final = "ClusterTopology=true"
_ATTEMPTS: Final = 5
_READY_SECONDS: Final = 90.0
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def _probe(plural: str, kind: str, spec: Object) -> tuple[str, Object]:
    group = plural.partition(".")[2]
    body = {
        "apiVersion": f"{group}/v1beta2",
        "kind": kind,
        "metadata": {"name": "probe"},
        "spec": spec,
    }
    return f"/apis/{group}/v1beta2/namespaces/default/{plural.partition('.')[0]}", body


_SOMETHING: Final = {"apiGroup": "probe.kubelocal", "kind": "Probe", "name": "probe"}
_PROBES: Final = {
    # Created in a dry run only: an object of each manager that its webhooks default and accept.
    CORE: _probe("clusters.cluster.x-k8s.io", "Cluster", {"infrastructureRef": _SOMETHING}),
    BOOTSTRAP: _probe(
        "kubeadmconfigs.bootstrap.cluster.x-k8s.io", "KubeadmConfig", {"format": "cloud-config"}
    ),
    CONTROL_PLANE: _probe(
        "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
        "KubeadmControlPlane",
        {
            "version": "v1.36.0",
            "replicas": 1,
            "machineTemplate": {"spec": {"infrastructureRef": _SOMETHING}},
        },
    ),
}


@dataclass(frozen=True)
class ManagerPorts:
    """What one manager listens on, all on 127.0.0.1."""

    webhook: int
    health: int
    diagnostics: int

    @property
    def webhook_url(self) -> str:
        """What a webhook's `url` begins with."""
        return f"https://127.0.0.1:{self.webhook}"


def manager_flags(
    component: Component, ports: ManagerPorts, config: Path, certificates: Path
) -> list[str]:
    """Build the flags of one manager."""
    gates = [] if component == BOOTSTRAP else [f"--feature-gates={_FEATURES}"]
    return [
        f"--kubeconfig={config}",
        f"--webhook-port={ports.webhook}",
        f"--webhook-cert-dir={certificates}",
        f"--health-addr=127.0.0.1:{ports.health}",
        f"--diagnostics-address=127.0.0.1:{ports.diagnostics}",
        "--insecure-diagnostics",
        *gates,
    ]


class ClusterApi:
    """Installs Cluster API into a running control plane and runs its managers."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of one cluster, each needed
        self,
        space: Workspace,
        supervisor: Supervisor,
        plane: ControlPlane,
        binaries: Mapping[str, Path],
        env: Mapping[str, str],
        found: Manifests,
        *,
        find_ports: FindPorts = free_ports,
    ) -> None:
        self._space = space
        self._supervisor = supervisor
        self._plane = plane
        self._binaries = binaries
        self._env = env
        self._manifests = found
        self._find_ports = find_ports
        ports = iter(find_ports(3 * len(COMPONENTS)))
        self._ports = {c: ManagerPorts(next(ports), next(ports), next(ports)) for c in COMPONENTS}

    @property
    def config(self) -> Path:
        """The clusterctl configuration."""
        return self._space.part("clusterctl") / CONFIG_FILE

    @property
    def _api(self) -> Api:
        return self._plane.api

    def init(self, given: Sequence[Provider], clusterctl: Callable[..., str]) -> None:
        """Run `clusterctl init`, start the managers, wait until all are ready. Once per cluster."""
        own = {c: self._local(c) for c in COMPONENTS}
        write_repository(self._space.part("clusterctl"), own, self._manifests.metadata, given)
        self._install_cert_manager_crds()
        clusterctl("init", *self._init_arguments(given))
        self._wait_established(own)
        self._start_managers()

    @staticmethod
    def _init_arguments(given: Sequence[Provider]) -> list[str]:
        own = [(c.type, c.name, CLUSTER_API_VERSION) for c in COMPONENTS]
        theirs = [(p.type, p.name, p.version) for p in given]
        return [f"{init_flag(kind)}={name}:{version}" for kind, name, version in own + theirs]

    def _local(self, component: Component) -> list[Object]:
        url = self._ports[component].webhook_url
        objects = self._manifests.objects(component)
        return manifests.local(objects, url, self._plane.ca_bundle)

    def _install_cert_manager_crds(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda c: self._api.create(_CRDS, c), self._manifests.cert_manager_crds))

    def _wait_established(self, own: Mapping[Component, list[Object]]) -> None:
        wanted = {
            found["metadata"]["name"]
            for objects in own.values()
            for found in objects
            if found["kind"] == "CustomResourceDefinition"
        }

        def established() -> bool:
            items = self._api.get(_CRDS)["items"]
            return wanted <= {i["metadata"]["name"] for i in items if _established(i)}

        self._supervisor.wait("kube-apiserver", established, _READY_SECONDS)

    def _start_managers(self) -> None:
        certificates = self._space.part("pki") / "webhooks"
        certificates.mkdir()
        for ending in ("crt", "key"):
            source = self._space.part("pki") / f"local.{ending}"
            shutil.copy2(source, certificates / f"tls.{ending}")
        self._supervisor.wait("kube-controller-manager", self._roles_filled, _READY_SECONDS)
        for component in COMPONENTS:
            self._start_manager(component)
        # Together: the API server takes two seconds for its first KubeadmControlPlane alone.
        with ThreadPoolExecutor(len(COMPONENTS)) as pool:
            list(pool.map(self._wait_ready, COMPONENTS))

    def _roles_filled(self) -> bool:
        """Whether the controller-manager has filled the core manager's aggregated role."""
        role = self._api.find(f"{_ROLES}/capi-aggregated-manager-role")
        return role is None or bool(role.get("rules"))

    def _start_manager(self, component: Component) -> None:
        config = self._space.part("kubeconfigs") / f"{component.tool}.yaml"
        if not config.exists():
            token = request_token(self._api, component.namespace, component.service_account)
            self._plane.write_token_kubeconfig(config, component.tool, component.namespace, token)
        certificates = self._space.part("pki") / "webhooks"
        flags = manager_flags(component, self._ports[component], config, certificates)
        command = [str(self._binaries[component.tool]), *flags]
        self._supervisor.start(component.tool, command, self._env)

    def _wait_ready(self, component: Component) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._supervisor.wait(
                    component.tool, partial(self._ready, component), _READY_SECONDS
                )
            except StartFailed as error:
                if attempt == _ATTEMPTS or not lost_port(error):
                    raise
                self._supervisor.stop(component.tool)
                self._move(component)
                self._start_manager(component)
            else:
                return

    def _ready(self, component: Component) -> bool:
        """Whether the manager says so, and the API server gets through to its webhooks."""
        if not _ok(f"http://127.0.0.1:{self._ports[component].health}/readyz"):
            return False
        path, body = _PROBES[component]
        try:
            self._api.create(f"{path}?dryRun=All", body)
        except Refused:
            return False
        return True

    def _move(self, component: Component) -> None:
        """Give the manager other ports and tell the API server of them."""
        self._ports[component] = ManagerPorts(*self._find_ports(3))
        for wanted in self._local(component):
            path = _path(wanted)
            if path is not None:
                live = self._api.get(path)
                for key in ("webhooks", "spec"):
                    if key in wanted:
                        live[key] = wanted[key]
                self._api.replace(path, live)

    def stop(self) -> None:
        """Stop the managers. Idempotent."""
        self._supervisor.stop(*(c.tool for c in (CONTROL_PLANE, BOOTSTRAP, CORE)), grace=3)


def _path(found: Object) -> str | None:
    """Say where an object that carries a manager's address lives in the API."""
    name = found["metadata"]["name"]
    return {
        "CustomResourceDefinition": f"{_CRDS}/{name}",
        "MutatingWebhookConfiguration": f"{_ADMISSION}/mutatingwebhookconfigurations/{name}",
        "ValidatingWebhookConfiguration": f"{_ADMISSION}/validatingwebhookconfigurations/{name}",
    }.get(found["kind"])


def _established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _ok(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=5, trust_env=False).status_code == httpx2.codes.OK
    except httpx2.HTTPError:
        return False


def request_token(api: Api, namespace: str, name: str, seconds: int = 365 * 24 * 3600) -> str:
    """Ask the API server for a ServiceAccount's token; raises UsageError where there is none."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    try:
        return str(api.create(path, body)["status"]["token"])
    except Refused as refused:
        raise UsageError(
            f"no token for the ServiceAccount {namespace}/{name} ({refused}): it has to exist "
            "before a kubeconfig can be made for it"
        ) from refused
