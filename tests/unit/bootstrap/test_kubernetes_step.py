"""The Kubernetes step in user data: where it stands, and when it is not there at all."""

import base64
import gzip
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from capvco.bootstrap.kubernetes_step import SCRIPTS
from capvco.bootstrap.userdata import Document, Driver, Instance, render
from tests.unit.bootstrap.test_gpu_step import STEP as GPU_STEP
from tests.unit.bootstrap.test_userdata import KUBEADM_JOIN, LIST, cloud_config, join

FOLDER, SETTINGS = "/opt/capvco/kubernetes", "/etc/capvco/kubernetes.env"
STEP = ["/bin/bash", f"{FOLDER}/kubernetes.sh", "boot"]


def rendered(
    document: Document, version: str = "v1.35.8", driver: Driver | None = None
) -> Document:
    data = b"#cloud-config\n" + yaml.safe_dump(document).encode()
    instance = Instance("worker-1", "vco://x/y/z", {}, driver, version)
    return render(data, "cloud-config", instance)


def ours(document: Document) -> dict[str, dict[str, Any]]:
    files = document.get("write_files", [])
    return {f["path"]: f for f in files if f["path"].startswith((FOLDER, "/etc/capvco"))}


def test_before_kubeadm() -> None:
    """One entry, a list, after the user's own commands and right before kubeadm's line."""
    commands = ["mkdir -p /etc/x", KUBEADM_JOIN, "echo done"]
    assert rendered({"runcmd": commands})["runcmd"] == [commands[0], STEP, *commands[1:]]


def test_before_the_gpu_step() -> None:
    """The GPU step needs containerd."""
    after = rendered({"runcmd": [KUBEADM_JOIN]}, driver=Driver("570", 1))
    assert after["runcmd"] == [STEP, GPU_STEP, KUBEADM_JOIN]


@pytest.mark.parametrize(
    "document",
    [{}, {"runcmd": ["curl -sfL https://get.example | sh -s - agent"]}, {"runcmd": None}],
)
def test_not_without_kubeadm(document: Document) -> None:
    """Other bootstrap providers bring what they need."""
    assert rendered(document) == document


def test_not_without_a_version() -> None:
    """A Machine that says no version, or whose pool says Never, gets nothing."""
    assert rendered({"runcmd": [KUBEADM_JOIN]}, version="") == {"runcmd": [KUBEADM_JOIN]}


def test_nothing_of_gpus() -> None:
    """Without a driver version nothing that has to do with GPUs is in it, packed or not."""
    document = render(
        cloud_config(join("v1beta4", LIST)),
        "cloud-config",
        Instance("worker-1", "vco://x/y/z", {}, None, "v1.35.8"),
    )
    for path, entry in ours(document).items():
        content = entry["content"]
        if path != SETTINGS:
            content = gzip.decompress(base64.b64decode(content)).decode()
        for word in ("nvidia", "nouveau", "CAPVCO_GPU", "10de"):
            assert word not in content.lower()


def test_scripts_arrive_whole() -> None:
    """What cloud-init unpacks is what the package has."""
    found = ours(rendered({"runcmd": [KUBEADM_JOIN]}))
    assert {Path(path).name for path in found} == {*SCRIPTS, "kubernetes.env"}
    scripts = Path(__file__).parents[3] / "src/capvco/bootstrap/scripts"
    for name in SCRIPTS:
        entry = found[f"{FOLDER}/{name}"]
        assert (entry["encoding"], entry["permissions"]) == ("gzip+base64", "0755")
        content = gzip.decompress(base64.b64decode(entry["content"]))
        assert content == (scripts / name).read_bytes()


@pytest.mark.parametrize("version", ["v1.35.8", "'; touch /x #"])
def test_settings(version: str) -> None:
    """The settings are what the shell reads back, whatever the version."""
    content = ours(rendered({"runcmd": [KUBEADM_JOIN]}, version))[SETTINGS]["content"]
    read = subprocess.run(
        ["bash", "-c", f'{content}printf %s "$CAPVCO_KUBERNETES_VERSION"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == version


def test_small() -> None:
    """It takes less than 10 KiB of user data, the same bytes each time."""
    document = {"runcmd": [KUBEADM_JOIN]}
    first, second = (msgspec.json.encode(rendered(document)) for _ in range(2))
    assert first == second
    assert len(first) < 10 * 1024
