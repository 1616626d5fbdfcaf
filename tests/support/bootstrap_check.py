"""What must become of what the kubeadm bootstrap provider writes, recorded or just now."""

from collections.abc import Mapping
from typing import Any

import yaml

from capvco.bootstrap.userdata import Document, Driver, Instance, fitted, render
from capvco.services.cloud import MAX_USER_DATA
from tests.support.bootstrap_data import HOSTNAME, VERSIONS

PROVIDER_ID = "vco://be-mac-dc01-001/default/worker-1-0a1b2c3d"
LABELS = {"cluster-api/accelerator": "nvidia-a100"}


def instance(version: str) -> Instance:
    return Instance(HOSTNAME, PROVIDER_ID, LABELS, Driver("570", 1), version)


def check(name: str, data: bytes) -> None:
    """Kubelet arguments and steps are added; all else is, to the byte, what the provider wrote."""
    version = name.rpartition("-")[2]
    before = as_written(data)
    after = render(data, "cloud-config", instance(version))
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
