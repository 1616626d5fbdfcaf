"""etcd, kube-apiserver and kube-controller-manager: their flags, their start, their end."""

from __future__ import annotations

import base64
import shutil
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx2

from kubelocal import kubeconfig
from kubelocal.api import Api
from kubelocal.errors import StartFailed
from kubelocal.pki import Authority, signing_key, write_secret
from kubelocal.ports import FindPorts, free_ports
from kubelocal.supervisor import lost_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kubelocal.supervisor import Supervisor
    from kubelocal.workspace import Workspace

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"

_ATTEMPTS: Final = 5
_READY_SECONDS: Final = 90.0
# It stops listening and writes its last within a moment, then waits a minute for watches to end.
_APISERVER_GRACE: Final = 2.0
_LOOPBACK: Final = "127.0.0.1"
_SERVICE_RANGE: Final = "10.96.0.0/16"
_APISERVER_NAMES: Final = (
    _LOOPBACK,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
)
_CONTROLLERS: Final = (
    # Those that need a cloud or nodes have nothing to do here.
    "*,-nodeipam,-cloud-node-lifecycle,-service-lb-controller,-node-route-controller,-attachdetach"
)
_NODE_CONTROLLERS: Final = ",bootstrap-signer-controller,token-cleaner-controller"
_NODE_FLAGS: Final = (
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--enable-bootstrap-token-auth",
)


@dataclass(frozen=True)
class Ports:
    """What the three processes listen on, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int


def etcd_flags(pki: Path, data: Path, ports: Ports) -> list[str]:
    """Build etcd's flags: mutual TLS, and no fsync, since nothing here outlives a power cut."""
    client = f"https://{_LOOPBACK}:{ports.etcd}"
    peer = f"https://{_LOOPBACK}:{ports.etcd_peer}"
    return [
        "--name=local",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        f"--cert-file={pki / 'etcd.crt'}",
        f"--key-file={pki / 'etcd.key'}",
        f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
        "--client-cert-auth",
        f"--peer-cert-file={pki / 'etcd.crt'}",
        f"--peer-key-file={pki / 'etcd.key'}",
        f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(
    pki: Path, ports: Ports, *, service_accounts: bool, nodes: bool = False
) -> list[str]:
    """Build kube-apiserver's flags: RBAC, certificates of our own, only loopback.

    Without a controller-manager nobody makes ServiceAccounts, so their admission is off then. With
    `nodes` kubelets may join by a bootstrap token, and may do what a kubelet may, no more.
    """
    return [
        f"--bind-address={_LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        f"--advertise-address={_LOOPBACK}",
        "--endpoint-reconciler-type=none",  # loopback addresses are refused in Endpoints
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        f"--etcd-servers=https://{_LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'etcd-client.key'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        "--shutdown-delay-duration=0s",
        "--profiling=false",
        *([] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]),
        *(_NODE_FLAGS if nodes else ["--authorization-mode=RBAC"]),
    ]


def controller_manager_flags(
    pki: Path, config: Path, ports: Ports, *, nodes: bool = False
) -> list[str]:
    """Build kube-controller-manager's flags: every controller with its own identity.

    With `nodes` it signs the certificates of kubelets, and what `kubeadm join` looks at first.
    """
    signing = [
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
    ]
    return [
        f"--kubeconfig={config}",
        f"--bind-address={_LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={pki / 'local.crt'}",
        f"--tls-private-key-file={pki / 'local.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--controllers={_CONTROLLERS}{_NODE_CONTROLLERS if nodes else ''}",
        *(signing if nodes else []),
        "--kube-api-qps=300",  # the default of 20 makes its start wait four seconds on itself
        "--kube-api-burst=600",
    ]


class ControlPlane:
    """The three processes of one cluster; not started until `start`."""

    def __init__(  # noqa: PLR0913 - the parts of one control plane, each needed
        self,
        space: Workspace,
        supervisor: Supervisor,
        binaries: Mapping[str, Path],
        env: Mapping[str, str],
        *,
        controller_manager: bool,
        nodes: bool = False,
        hosts: tuple[str, ...] = (),
        find_ports: FindPorts = free_ports,
    ) -> None:
        self._space = space
        self._supervisor = supervisor
        self._binaries = binaries
        self._env = env
        self._with_manager = controller_manager
        self._with_nodes = nodes
        self._hosts = (*_APISERVER_NAMES, *hosts)
        self._find_ports = find_ports
        self._pki = space.part("pki")
        self._authority = Authority("kubelocal")
        self._write_certificates()
        self.ports = Ports(0, 0, 0, 0)
        self.api = self._client("https://127.0.0.1:0")

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://{_LOOPBACK}:{self.ports.apiserver}"

    @property
    def ca_pem(self) -> str:
        """The authority of every certificate but etcd's."""
        return self._authority.pem

    @property
    def ca_bundle(self) -> str:
        """The same as a webhook's `caBundle` wants it."""
        return base64.b64encode(self.ca_pem.encode()).decode()

    def _write_certificates(self) -> None:
        # etcd has an authority of its own: whoever may talk to the API server may not read etcd.
        etcd = Authority("kubelocal-etcd")
        (self._pki / "etcd-ca.crt").write_text(etcd.pem)
        etcd.issue("etcd", hosts=(_LOOPBACK, "localhost")).write(self._pki, "etcd")
        etcd.issue("kube-apiserver").write(self._pki, "etcd-client")
        (self._pki / "ca.crt").write_text(self._authority.pem)
        if self._with_nodes:
            write_secret(self._pki / "ca.key", self._authority.pair.key)
        self._authority.issue("kube-apiserver", hosts=self._hosts).write(self._pki, "apiserver")
        self._authority.issue("kubelocal", hosts=(_LOOPBACK, "localhost")).write(self._pki, "local")
        self._admin = self._authority.issue("kubelocal-admin", groups=("system:masters",))
        self._admin.write(self._pki, "admin")
        private, public = signing_key()
        write_secret(self._pki / "sa.key", private)
        (self._pki / "sa.pub").write_text(public)

    def _client(self, url: str) -> Api:
        return Api(url, self.ca_pem, self._pki / "admin.crt", self._pki / "admin.key")

    def start(self) -> None:
        """Start etcd and the API server and wait for `/readyz`; other ports if some are lost."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.ports = Ports(*self._find_ports(4))
            self.api.close()
            self.api = self._client(self.url)
            try:
                self._start_etcd()
                self.start_apiserver()
            except StartFailed as error:
                self._supervisor.stop(APISERVER, ETCD, grace=2)
                shutil.rmtree(self._space.part("etcd") / "data", ignore_errors=True)
                if attempt == _ATTEMPTS or not lost_port(error):
                    raise
            else:
                break
        fields = kubeconfig.with_certificate(self.url, self.ca_pem, self._admin)
        kubeconfig.write(self._space.kubeconfig, "admin", fields)

    def _start_etcd(self) -> None:
        flags = etcd_flags(self._pki, self._space.part("etcd") / "data", self.ports)
        self._supervisor.start(ETCD, [str(self._binaries[ETCD]), *flags], self._env)

    def start_apiserver(self) -> None:
        """Start the API server on its port and wait until it is ready. Not while it runs."""
        flags = apiserver_flags(
            self._pki, self.ports, service_accounts=self._with_manager, nodes=self._with_nodes
        )
        self._supervisor.start(APISERVER, [str(self._binaries[APISERVER]), *flags], self._env)

        def ready() -> bool:
            code = self._supervisor.exit_code(ETCD)
            if code is not None:  # its log says why, the API server's would only say "refused"
                self._supervisor.wait(ETCD, lambda: False, 0)
            return self.api.ready()

        self._supervisor.wait(APISERVER, ready, _READY_SECONDS)

    def start_controller_manager(self) -> None:
        """Start the controller-manager and wait until it has made the first ServiceAccount."""
        identity = self._authority.issue("system:kube-controller-manager")
        fields = kubeconfig.with_certificate(self.url, self.ca_pem, identity)
        path = self._space.part("kubeconfigs") / f"{CONTROLLER_MANAGER}.yaml"
        kubeconfig.write(path, CONTROLLER_MANAGER, fields)
        for attempt in range(1, _ATTEMPTS + 1):
            command = [
                str(self._binaries[CONTROLLER_MANAGER]),
                *controller_manager_flags(self._pki, path, self.ports, nodes=self._with_nodes),
            ]
            self._supervisor.start(CONTROLLER_MANAGER, command, self._env)
            try:
                self._supervisor.wait(CONTROLLER_MANAGER, self._accounts_made, _READY_SECONDS)
            except StartFailed as error:
                self._supervisor.stop(CONTROLLER_MANAGER, grace=2)
                if attempt == _ATTEMPTS or not lost_port(error):
                    raise
                (other,) = self._find_ports(1)
                self.ports = Ports(
                    self.ports.etcd, self.ports.etcd_peer, self.ports.apiserver, other
                )
            else:
                return

    def _accounts_made(self) -> bool:
        return self.api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def stop_apiserver(self) -> None:
        """Stop the API server alone. Idempotent."""
        self._supervisor.stop(APISERVER, grace=_APISERVER_GRACE)

    def stop(self) -> None:
        """Stop all three, in the order that lets each end well. Idempotent."""
        self._supervisor.stop(CONTROLLER_MANAGER, grace=5)
        # An API server whose etcd is gone does not end on SIGTERM, so it goes first.
        self.stop_apiserver()
        self._supervisor.stop(ETCD, grace=5)
        self.api.close()

    def compact_etcd(self) -> int:
        """Forget every revision before the present one; give that one."""
        context = ssl.create_default_context(cafile=str(self._pki / "etcd-ca.crt"))
        context.load_cert_chain(self._pki / "etcd-client.crt", self._pki / "etcd-client.key")
        base = f"https://{_LOOPBACK}:{self.ports.etcd}/v3/kv"
        with httpx2.Client(verify=context, timeout=30, trust_env=False) as client:
            found = client.post(f"{base}/range", json={"key": "AA=="}).raise_for_status()
            revision = int(found.json()["header"]["revision"])
            body = {"revision": str(revision), "physical": True}
            client.post(f"{base}/compaction", json=body).raise_for_status()
        return revision

    def write_token_kubeconfig(self, path: Path, user: str, namespace: str, token: str) -> Path:
        """Write the kubeconfig of somebody known by a token."""
        fields = kubeconfig.with_token(self.url, self.ca_pem, token)
        return kubeconfig.write(path, user, fields, namespace)
