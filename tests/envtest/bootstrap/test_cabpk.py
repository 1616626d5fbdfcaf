"""What the real kubeadm bootstrap provider writes is usable, for all roles and several versions."""

import base64
import json
import os
import time
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest
import yaml

from capvco.bootstrap.userdata import Document, Driver, Instance, UserDataError, fitted, render
from capvco.services.cloud import MAX_USER_DATA
from kubelocal import LocalCluster
from tests.envtest.bootstrap import objects
from tests.support.bootstrap_data import (
    HOSTNAME,
    NAMES,
    ROLES,
    VERSIONS,
    comparable,
    record,
    recorded,
)
from tests.support.scenario import CAPI, INFRA, Object, a_vco_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PROVIDER_ID = "vco://be-mac-dc01-001/default/worker-1-0a1b2c3d"
LABELS = {"cluster-api/accelerator": "nvidia-a100"}
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


def instance(version: str) -> Instance:
    return Instance(HOSTNAME, PROVIDER_ID, LABELS, Driver("570", 1), version)


def as_written(data: bytes) -> Document:
    """Read the document as cloud-init would, with the host's name in its place."""
    text = data.decode()
    assert text.startswith("## template: jinja\n#cloud-config\n")
    for mark, instead in (
        ("{{ ds.meta_data.local_hostname }}", HOSTNAME),
        ("{% raw %}", ""),
        ("{% endraw %}", ""),
    ):
        text = text.replace(mark, instead)
    found: Document = yaml.safe_load(text)
    return found


def kubeadm_documents(entry: Mapping[str, Any]) -> list[Any]:
    return [found for found in yaml.safe_load_all(entry["content"]) if found]


def is_kubeadm(entry: Mapping[str, Any]) -> bool:
    return str(entry["path"]).startswith("/run/kubeadm/")


def arguments(config: Mapping[str, Any], api: str) -> dict[str, str]:
    """Read the kubelet's arguments in the form of a version of kubeadm's API; {} if none."""
    assert config["apiVersion"] == f"kubeadm.k8s.io/{api}"
    found = config["nodeRegistration"].get("kubeletExtraArgs", {})
    if api == "v1beta3":
        return dict(found)
    assert isinstance(found, list) or not found
    return {argument["name"]: argument["value"] for argument in found}


@pytest.mark.parametrize("name", NAMES)
def test_usable(written: dict[str, bytes], name: str) -> None:
    """Kubelet arguments and steps are added; all else is, to the byte, what the provider wrote."""
    version = name.rpartition("-")[2]
    before = as_written(written[name])
    after = render(written[name], "cloud-config", instance(version))
    assert fitted(after, MAX_USER_DATA) is after
    assert {**after, "write_files": 0, "runcmd": 0} == {**before, "write_files": 0, "runcmd": 0}
    kept = after["write_files"][: len(before["write_files"])]
    assert [e for e in kept if not is_kubeadm(e)] == [
        e for e in before["write_files"] if not is_kubeadm(e)
    ]
    commands, line = after["runcmd"], next(c for c in before["runcmd"] if "kubeadm " in c)
    at = commands.index(line)
    assert commands[at - 2 : at] == [
        ["/bin/bash", "/opt/capvco/kubernetes/kubernetes.sh", "boot"],
        ["/bin/bash", "/opt/capvco/gpu/boot.sh"],
    ]
    assert [*commands[: at - 2], *commands[at:]] == before["runcmd"]
    (old,), (new,) = (filter(is_kubeadm, files) for files in (before["write_files"], kept))
    assert {**new, "content": 0} == {**old, "content": 0}
    _check_registration(kubeadm_documents(old), kubeadm_documents(new), VERSIONS[version])


def _check_registration(before: list[Any], after: list[Any], api: str) -> None:
    assert [d["kind"] for d in after] == [d["kind"] for d in before]
    for old, new in zip(before, after, strict=True):
        if old["kind"] == "ClusterConfiguration":
            assert new == old
            continue
        wanted = arguments(old, api) | {"provider-id": PROVIDER_ID}
        labels = [wanted.get("node-labels"), "cluster-api/accelerator=nvidia-a100"]
        found = arguments(new, api)
        assert set(found.pop("node-labels").split(",")) == set(filter(None, labels))
        wanted.pop("node-labels", None)
        assert found == wanted
        for config in (old, new):
            config["nodeRegistration"].pop("kubeletExtraArgs", None)
        assert new == old


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
