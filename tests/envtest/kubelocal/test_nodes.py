"""A cluster that real kubelets may join: their certificates, and what they may do with them."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubelocal import KubectlError, LocalCluster, Options, UsageError, kubeconfig
from kubelocal.pki import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # a first run builds the tools

_T = TypeVar("_T")
APPROVED = "system:certificates.k8s.io:certificatesigningrequests"
ID, SECRET = "abcdef", "0123456789abcdef"
TOKEN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": "bootstrap.kubernetes.io/token",
    "metadata": {"name": f"bootstrap-token-{ID}", "namespace": "kube-system"},
    "stringData": {
        "token-id": ID,
        "token-secret": SECRET,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
    },
}
CLUSTER_INFO = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cluster-info", "namespace": "kube-public"},
    "data": {"kubeconfig": "anything"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give a cluster for nodes, with what a new cluster's administrator makes."""
    folder = tmp_path_factory.mktemp("nodes")
    options = Options(folder / "state", capi=False, nodes=True, hosts=("10.0.2.2", "api.example"))
    with LocalCluster(options) as cluster:
        for name in ("system:node-bootstrapper", f"{APPROVED}:nodeclient"):
            group = ("--clusterrole", name, "--group", "system:bootstrappers")
            cluster.kubectl("create", "clusterrolebinding", name.rpartition(":")[2], *group)
        cluster.apply(f"{json.dumps(TOKEN)}\n---\n{json.dumps(CLUSTER_INFO)}")
        yield cluster


def until(done: Callable[[], _T]) -> _T:
    deadline = time.monotonic() + 30
    while not (found := done()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def certificate_of(cluster: LocalCluster, node: str, folder: Path) -> Pair:
    """Ask for a node's certificate, as somebody who has the bootstrap token alone."""
    config = folder / "bootstrap"
    fields = kubeconfig.with_token(cluster.url, cluster.ca_pem, f"{ID}.{SECRET}")
    kubeconfig.write(config, "bootstrap", fields)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": node},
        "spec": {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    cluster.kubectl("--kubeconfig", str(config), "create", "-f", "-", input=json.dumps(request))
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{node}"
    signed = until(lambda: cluster.read(path)["status"].get("certificate"))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Pair(base64.b64decode(signed).decode(), private.decode())


def test_a_kubelet_joins_by_a_token_and_has_a_nodes_rights(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Its certificate is signed at once; it may register itself, and no label of the system's."""
    pair = certificate_of(cluster, "one", tmp_path)
    config = tmp_path / "kubelet"
    kubeconfig.write(config, "one", kubeconfig.with_certificate(cluster.url, cluster.ca_pem, pair))
    as_node = ("--kubeconfig", str(config))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}
    cluster.kubectl(*as_node, "create", "-f", "-", input=json.dumps(node))
    cluster.kubectl(*as_node, "label", "node", "one", "example.com/color=blue")
    with pytest.raises(KubectlError, match="is not allowed to modify labels"):
        cluster.kubectl(*as_node, "label", "node", "one", "node-restriction.kubernetes.io/a=b")
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl(*as_node, "get", "secrets", "-A")


def test_cluster_info_is_signed_for_the_token(cluster: LocalCluster) -> None:
    """Which is what `kubeadm join` trusts before it knows the authority."""
    path = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    until(lambda: f"jws-kubeconfig-{ID}" in cluster.read(path)["data"])


@pytest.mark.parametrize("host", ["10.0.2.2", "api.example", "127.0.0.1"])
def test_the_certificate_has_further_names(cluster: LocalCluster, host: str) -> None:
    """Wherever the API server is reached from, it proves to be that host."""
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    address = ("127.0.0.1", int(cluster.url.rpartition(":")[2]))
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        assert secure.version() == "TLSv1.3"


def test_nodes_need_the_controller_manager(tmp_path: Path) -> None:
    """Nobody else would sign their certificates."""
    options = Options(tmp_path, capi=False, controller_manager=False, nodes=True)
    with pytest.raises(UsageError, match="nodes=True needs"):
        LocalCluster(options).start()
