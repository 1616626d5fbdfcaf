"""The real thing: processes, clusterctl, webhooks, and what is left when the owner is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from kubelocal import KubectlError, LocalCluster, Options, Provider, StartFailed, UsageError
from kubelocal.ports import free_ports
from kubelocal.processes import Identity, Records, identify
from kubelocal.store import default_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # a first run builds the tools

PROCESSES = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "capi-core-manager",
    "capi-kubeadm-bootstrap-manager",
    "capi-kubeadm-control-plane-manager",
]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "example-system"}}
ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "manager", "namespace": "example-system"},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "exampleclusters.infrastructure.cluster.x-k8s.io",
        "labels": {"cluster.x-k8s.io/v1beta2": "v1beta1"},
    },
    "spec": {
        "group": "infrastructure.cluster.x-k8s.io",
        "names": {"kind": "ExampleCluster", "plural": "exampleclusters"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
METADATA = {
    "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
    "kind": "Metadata",
    "releaseSeries": [{"major": 0, "minor": 1, "contract": "v1beta2"}],
}
REFERENCE = {"kind": "ExampleCluster", "name": "one"}


def provider(folder: Path) -> Provider:
    """Write the smallest infrastructure provider clusterctl takes."""
    folder.mkdir()
    components = yaml.safe_dump_all([NAMESPACE, ACCOUNT, CRD])
    (folder / "infrastructure-components.yaml").write_text(components)
    (folder / "metadata.yaml").write_text(yaml.safe_dump(METADATA))
    return Provider("example", "InfrastructureProvider", "v0.1.0", folder)


class Contested:
    """Finds ports, of which somebody else takes one before it is used: each place once.

    Asked for four it is the control plane's turn, asked for nine that of the managers.
    """

    def __init__(self) -> None:
        self._places = {4: [0, 2, 3], 9: [1, 6]}
        self.held: list[socket.socket] = []

    def __call__(self, count: int) -> tuple[int, ...]:
        found = free_ports(count)
        places = self._places.get(count, [])
        taken = places if count == 9 else places[:1]
        for place in taken:
            self.held.append(socket.create_server(("127.0.0.1", found[place])))
        del places[: len(taken)]
        return found


@pytest.fixture(scope="module")
def contested() -> Iterator[Contested]:
    contested = Contested()
    yield contested
    for held in contested.held:
        held.close()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, contested: Contested
) -> Iterator[LocalCluster]:
    """Give a cluster that has had to look for other ports wherever that can happen."""
    folder = tmp_path_factory.mktemp("management")
    with LocalCluster(Options(folder / "state"), find_ports=contested) as cluster:
        cluster.init([provider(folder / "dist")])
        yield cluster


def a_cluster(version: str, namespace: str, spec: Mapping[str, object]) -> str:
    return json.dumps(
        {
            "apiVersion": f"cluster.x-k8s.io/{version}",
            "kind": "Cluster",
            "metadata": {"name": "one", "namespace": namespace},
            "spec": spec,
        }
    )


def test_ports_lost_to_others_are_replaced(cluster: LocalCluster, contested: Contested) -> None:
    """etcd's, the API server's, the controller-manager's, a manager's health and webhook port."""
    held = {sock.getsockname()[1] for sock in contested.held}
    assert len(held) == 5
    assert int(cluster.url.rpartition(":")[2]) not in held
    # A manager that was started again comes later: all six run all the same.
    assert sorted(process.name for process in cluster.processes) == sorted(PROCESSES)


def test_clusterctl_knows_the_providers(cluster: LocalCluster) -> None:
    """Four of them, and a second init is refused."""
    found = json.loads(
        cluster.kubectl("get", "providers.clusterctl.cluster.x-k8s.io", "-A", "-ojson")
    )
    names = {item["metadata"]["name"]: item["version"] for item in found["items"]}
    assert names == {
        "cluster-api": "v1.14.2",
        "bootstrap-kubeadm": "v1.14.2",
        "control-plane-kubeadm": "v1.14.2",
        "infrastructure-example": "v0.1.0",
    }
    assert "v1.14.2" in cluster.clusterctl("version", "-o", "short")
    with pytest.raises(UsageError, match="already"):
        cluster.init()


def test_a_webhook_refuses_what_the_schema_lets_through(cluster: LocalCluster) -> None:
    """So admission over TLS really happens."""
    namespace = cluster.create_namespace("webhook")
    spec = {"topology": {"classRef": {"name": "none"}, "version": "not-a-version"}}
    with pytest.raises(KubectlError) as refused:
        cluster.apply(a_cluster("v1beta2", namespace, spec))
    # The v is the defaulting webhook's, the refusal the validating one's.
    assert '"vnot-a-version": version must be a valid semantic version' in refused.value.stderr


def test_an_old_object_is_converted_by_the_webhook_and_reconciled(cluster: LocalCluster) -> None:
    """v1beta1 goes in, v1beta2 comes out, and the core manager writes its status."""
    namespace = cluster.create_namespace("conversion")
    old = REFERENCE | {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}
    cluster.apply(a_cluster("v1beta1", namespace, {"infrastructureRef": old}))
    kind = "clusters.v1beta2.cluster.x-k8s.io/one"
    read = json.loads(cluster.kubectl("get", kind, "-n", namespace, "-ojson"))
    new = REFERENCE | {"apiGroup": "infrastructure.cluster.x-k8s.io"}
    assert read["spec"]["infrastructureRef"] == new
    condition = "--for=jsonpath={.status.phase}"
    cluster.kubectl("wait", condition, kind, "-n", namespace, "--timeout=60s")


def test_a_namespace_can_be_deleted_with_what_is_in_it(cluster: LocalCluster) -> None:
    """The controller-manager empties it."""
    namespace = cluster.create_namespace("gone")
    cluster.kubectl("create", "configmap", "one", "-n", namespace)
    cluster.kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert namespace not in cluster.kubectl("get", "namespaces", "-oname")


def test_a_service_account_has_its_own_rights_only(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its kubeconfig is known as the account and may do what RBAC grants: here, nothing."""
    config = cluster.service_account_kubeconfig("example-system", "manager", tmp_path / "config")
    who = cluster.kubectl("--kubeconfig", str(config), "auth", "whoami")
    assert "system:serviceaccount:example-system:manager" in who
    with pytest.raises(KubectlError, match="forbidden"):
        cluster.kubectl("--kubeconfig", str(config), "get", "secrets", "-A")
    with pytest.raises(UsageError, match="has to exist"):
        cluster.service_account_kubeconfig("example-system", "nobody", tmp_path / "none")


def test_a_program_that_does_not_get_ready_is_not_left_running(cluster: LocalCluster) -> None:
    """And its name is free again for the next try."""
    for _ in range(2):
        with pytest.raises(StartFailed, match="guest was not ready"):
            cluster.run("guest", ["/bin/sleep", "600"], ready=lambda: False, seconds=0)
        assert "guest" not in [process.name for process in cluster.processes]
    guest = cluster.run("guest", ["/bin/sleep", "600"], ready=lambda: True)
    assert guest in cluster.processes
    cluster.end("guest", kill=True)
    assert guest not in cluster.processes


def test_a_compaction_and_a_restart_make_old_versions_gone(cluster: LocalCluster) -> None:
    """A watch from before ends in 410, on the same address, with the data still there."""
    url = cluster.url
    namespace = cluster.create_namespace("compact")
    assert cluster.compact_etcd() > 1
    cluster.restart_apiserver()
    assert cluster.url == url
    assert f"namespace/{namespace}" in cluster.kubectl("get", "namespaces", "-oname")
    watch = "/api/v1/namespaces?watch=1&resourceVersion=1&timeoutSeconds=1"
    assert '"code":410' in cluster.kubectl("get", "--raw", watch).replace(" ", "")


OWNER = """
import sys, time
from pathlib import Path
from kubelocal import LocalCluster, Options
cluster = LocalCluster(Options(Path(sys.argv[1]), capi=False, keep=sys.argv[2] == "keep"))
cluster.start()
print("ready", flush=True)
time.sleep(600)
"""


def alive(found: dict[str, Identity]) -> list[str]:
    return [name for name, identity in found.items() if identity.alive]


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that is nobody's business."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("how", ["tied", "keep"])
def test_a_killed_owner_leaves_nothing_that_the_next_start_does_not_end(
    tmp_path: Path, bystander: subprocess.Popen[bytes], how: str
) -> None:
    """Tied processes die with it, kept ones at the next start; nothing is written to HOME."""
    state, home = tmp_path / "state", tmp_path / "home"
    home.mkdir()
    env = os.environ | {"HOME": str(home), "KUBELOCAL_CACHE": str(default_root(os.environ))}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(state), how], env=env, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    before = Records(state / "processes").living()
    assert set(before) == {"owner", "etcd", "kube-apiserver", "kube-controller-manager"}
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    if how == "tied":
        deadline = time.monotonic() + 20
        while alive(before):
            assert time.monotonic() < deadline, alive(before)
            time.sleep(0.05)
    with LocalCluster(Options(state, capi=False)) as again:
        assert alive(before) == []
        assert "default" in again.kubectl("get", "namespaces", "-oname")
        now = [identify(process.pid) for process in again.processes]
        assert None not in now
    assert [found for found in now if found is not None and found.alive] == []
    assert list(home.iterdir()) == []
    assert bystander.poll() is None


def test_a_failed_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here etcd is a program that ends at once: its last words are in the message."""
    assets = tmp_path / "assets"
    assets.mkdir()
    fake = assets / "etcd"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo etcd Version: 3.6.9 || { echo no; exit 4; }'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    broken = LocalCluster(Options(tmp_path / "state", capi=False))
    with pytest.raises(Exception, match="etcd ended with exit code 4") as error:
        broken.start()
    assert "  | no" in str(error.value)
    assert broken.processes == ()
    assert Records(tmp_path / "state" / "processes").living() == {}


def kubelocal(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kubelocal", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_up_runs_until_ctrl_c_and_then_ends_well(tmp_path: Path) -> None:
    """It prints the KUBECONFIG to use; its exit code is 0 and nothing is left."""
    state, config = tmp_path / "state", tmp_path / "config"
    where = ("--directory", str(state))
    with kubelocal("up", "--no-capi", *where, "--kubeconfig", str(config)) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"export KUBECONFIG={config}\n"
        assert config.read_text() == (state / "kubeconfig").read_text()
        before = Records(state / "processes").living()
        assert len(before) == 4
        up.send_signal(signal.SIGINT)
        up.communicate()
    assert up.returncode == 0
    assert alive(before) == []


def test_a_detached_cluster_runs_on_until_it_is_taken_down(tmp_path: Path) -> None:
    """By whoever; `status` shows it meanwhile."""
    where = ("--directory", str(tmp_path / "state"))
    with kubelocal("up", "--no-capi", "--detach", *where) as up:
        up.communicate()
    assert up.returncode == 0
    before = Records(tmp_path / "state" / "processes").living()
    assert set(before) == {"etcd", "kube-apiserver", "kube-controller-manager"}
    with kubelocal("status", *where) as status:
        shown, _ = status.communicate()
    assert all(str(identity.pid) in shown for identity in before.values())
    with kubelocal("down", *where) as down:
        down.communicate()
    assert down.returncode == 0
    assert alive(before) == []
