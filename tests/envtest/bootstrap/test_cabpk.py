"""What the real kubeadm bootstrap provider writes is usable, for all roles and several versions."""

import base64
import json
import os
import time
from collections.abc import Iterator
from itertools import product

import pytest

from capvco.bootstrap.userdata import UserDataError, render
from kubelocal import LocalCluster
from tests.envtest.bootstrap import objects
from tests.support.bootstrap_check import check, instance
from tests.support.bootstrap_data import (
    NAMES,
    ROLES,
    VERSIONS,
    comparable,
    record,
    recorded,
)
from tests.support.scenario import CAPI, INFRA, Object, a_vco_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

BARE = "bare-braces"


class Clusters:
    """One cluster of each version, in one namespace; the management cluster serves them all."""

    def __init__(self, management: LocalCluster) -> None:
        self.management = management
        self.namespace = management.create_namespace("bootstrap")

    def apply(self, *found: Object) -> None:
        self.management.apply(objects.text(list(found), self.namespace))

    def written(self) -> dict[str, bytes]:
        """Return all bootstrap data that there is by now, by the machine's name."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        return {
            item["metadata"]["name"]: base64.b64decode(item["data"]["value"])
            for item in self.management.read(path)["items"]
            if "format" in item.get("data", {})
        }

    def until_written(self, names: set[str]) -> dict[str, bytes]:
        deadline = time.monotonic() + 120
        while not names <= (found := self.written()).keys():
            assert time.monotonic() < deadline, f"never written: {names - found.keys()}"
            time.sleep(0.1)
        return found

    def initialized(self, cluster: str) -> bool:
        """Play the first control plane: say that it is up; whether Cluster API believes it."""
        path = f"/apis/{CAPI}/v1beta2/namespaces/{self.namespace}/clusters/{cluster}"
        found = self.management.read(path).get("status", {})
        conditions = {c["type"]: c["status"] for c in found.get("conditions", [])}
        if conditions.get("ControlPlaneInitialized") == "True":
            return True
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = {
            "type": "ControlPlaneInitialized",
            "status": "True",
            "reason": "Initialized",
            "message": "",
            "lastTransitionTime": now,
        }
        status = {"initialization": {"controlPlaneInitialized": True}, "conditions": [said]}
        self.patch(f"cluster.{CAPI}", cluster, status)
        return False

    def patch(self, kind: str, name: str, status: Object) -> None:
        """Play whoever says how an object is."""
        patch = json.dumps({"status": status})
        where = ("-n", self.namespace, "patch", kind, name, "--subresource=status")
        self.management.kubectl(*where, "--type=merge", "-p", patch)


def cluster_of(version: str) -> str:
    return f"of-{version.replace('.', '-')}"


@pytest.fixture(scope="module")
def written(management_cluster: LocalCluster) -> dict[str, bytes]:
    """Let the provider write all of it in one go, first for the first machine of each cluster."""
    clusters = Clusters(management_cluster)
    clusters.apply(*first_machines(management_cluster.kubeconfig.read_text()))
    names = [cluster_of(version) for version in VERSIONS]
    for name in names:
        clusters.patch(f"vcocluster.{INFRA}", name, {"initialization": {"provisioned": True}})
    clusters.until_written({f"init-{version}" for version in VERSIONS})
    deadline = time.monotonic() + 60
    while names := [name for name in names if not clusters.initialized(name)]:
        assert time.monotonic() < deadline
    clusters.apply(*further_machines())
    return clusters.until_written({*NAMES, BARE})


def first_machines(kubeconfig: str) -> Iterator[Object]:
    files = {"script": objects.FROM_A_SECRET, "password": objects.PASSWORD}
    yield objects.secret(objects.SECRET, files)
    for version in VERSIONS:
        name = cluster_of(version)
        yield from (objects.a_cluster(name), a_vco_cluster(name))
        yield objects.kubeconfig_secret(name, kubeconfig)
        spec = objects.everything("init")
        yield from objects.a_machine(f"init-{version}", name, version, spec, member=True)


def further_machines() -> Iterator[Object]:
    for version, role in product(VERSIONS, ROLES[1:]):
        spec, member = objects.everything(role), role == "control-plane"
        name = f"{role}-{version}"
        yield from objects.a_machine(name, cluster_of(version), version, spec, member=member)
    version = "v1.36.3"
    bare = {"files": [{"path": "/etc/x", "content": "a\n{{ .Names }}\n"}]}
    for name, spec in ((f"plain-worker-{version}", {"format": "cloud-config"}), (BARE, bare)):
        yield from objects.a_machine(name, cluster_of(version), version, spec, member=False)


@pytest.mark.parametrize("name", NAMES)
def test_usable(written: dict[str, bytes], name: str) -> None:
    """Kubelet arguments and steps are added; all else is, to the byte, what the provider wrote."""
    check(name, written[name])


@pytest.mark.parametrize("name", NAMES)
def test_recorded(written: dict[str, bytes], name: str) -> None:
    """The records that cloud-init itself is asked about are what the provider writes today."""
    if os.environ.get("RECORD"):
        record(name, written[name])
    assert comparable(written[name]) == recorded(name)


def test_braces_of_the_user(written: dict[str, bytes]) -> None:
    """The provider does not protect them: cloud-init would drop the whole document, silently."""
    with pytest.raises(UserDataError) as caught:
        render(written[BARE], "cloud-config", instance("v1.36.3"))
    line = written[BARE].decode().splitlines().index("      {{ .Names }}") + 1
    assert f"uses a jinja expression at line {line} that" in str(caught.value)
