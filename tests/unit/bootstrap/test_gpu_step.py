"""The GPU step in user data: where it stands, and what it leaves alone."""

import base64
import gzip
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from capvco.bootstrap.gpu_step import SCRIPTS
from capvco.bootstrap.userdata import (
    Document,
    Driver,
    Instance,
    UserDataError,
    render,
)
from tests.unit.bootstrap.test_userdata import KUBEADM_JOIN, LIST, cloud_config, join

FOLDER, SETTINGS = "/opt/capvco/gpu", "/etc/capvco/gpu.env"
DRIVER = Driver("570", 2)
STEP = ["/bin/bash", f"{FOLDER}/boot.sh"]
INIT = (
    "kubeadm init --config /run/kubeadm/kubeadm.yaml "
    " && echo success > /run/cluster-api/bootstrap-success.complete"
)


def instance(driver: Driver | None = DRIVER) -> Instance:
    return Instance("worker-1", "vco://x/y/z", {}, driver)


def rendered(document: Document, driver: Driver | None = DRIVER) -> Document:
    data = b"#cloud-config\n" + yaml.safe_dump(document).encode()
    return render(data, "cloud-config", instance(driver))


def ours(document: Document) -> dict[str, dict[str, Any]]:
    files = document["write_files"]
    return {f["path"]: f for f in files if f["path"].startswith((FOLDER, "/etc/capvco"))}


def test_no_driver_no_step() -> None:
    """Without a driver version nothing that has to do with GPUs is in the document."""
    document = render(cloud_config(join("v1beta4", LIST)), "cloud-config", instance(None))
    assert ours(document) == {}
    assert document["runcmd"] == [KUBEADM_JOIN]
    assert "gpu" not in str(document).replace("tier=gpu", "")


def test_one_list_before_kubeadm() -> None:
    """One entry, a list, right before kubeadm's line, which stays byte for byte."""
    document = render(cloud_config(join("v1beta4", LIST)), "cloud-config", instance())
    assert document["runcmd"] == [STEP, KUBEADM_JOIN]


@pytest.mark.parametrize("line", [INIT, KUBEADM_JOIN, ["kubeadm", "join", "--config", "/x"]])
def test_after_the_users_own_commands(line: object) -> None:
    """The commands before kubeadm come first: they may set up the mirrors that the step needs."""
    commands = ["mkdir -p /etc/x", ["echo", "kubeadm"], line, "echo done"]
    assert rendered({"runcmd": commands})["runcmd"] == [*commands[:2], STEP, *commands[2:]]


@pytest.mark.parametrize("document", [{}, {"runcmd": None, "write_files": None}, {"runcmd": []}])
def test_without_commands(document: Document) -> None:
    """Where there is no kubeadm, the step comes first."""
    after = rendered(document)
    assert after["runcmd"] == [STEP]
    assert len(ours(after)) == len(after["write_files"])
    assert rendered({"runcmd": ["install-k3s"]})["runcmd"] == [STEP, "install-k3s"]


@pytest.mark.parametrize("key", ["runcmd", "write_files"])
def test_what_is_no_list_is_refused(key: str) -> None:
    """cloud-init would drop it, and the node would never join."""
    with pytest.raises(UserDataError, match=f"{key} of the bootstrap data is not a list"):
        rendered({key: "hunter2"})


def test_the_users_files_stay_first() -> None:
    """Files of the bootstrap configuration are as they were, and ours follow."""
    entry = {"path": "/etc/capvco/gpu.d/mirror.env", "content": "CAPVCO_TOOLKIT_KEY=/x\n"}
    assert rendered({"write_files": [entry]})["write_files"][0] == entry


def test_settings() -> None:
    """The settings are what the shell reads back, whatever the version."""
    for driver in (DRIVER, Driver("580-open", 16), Driver("'; touch /x #", 1)):
        content = ours(rendered({}, driver))[SETTINGS]["content"]
        read = subprocess.run(
            ["bash", "-c", f'{content}printf %s "$CAPVCO_GPU_DRIVER|$CAPVCO_GPU_COUNT"'],
            capture_output=True,
            text=True,
            check=True,
        )
        assert read.stdout == f"{driver.version}|{driver.count}"


def test_scripts_arrive_whole() -> None:
    """What cloud-init unpacks is what the package has, and everything that they call is there."""
    found = ours(rendered({}))
    scripts = Path(__file__).parents[3] / "src/capvco/bootstrap/scripts"
    names = {path.name for path in scripts.iterdir()}
    assert {Path(path).name for path in found} == {*SCRIPTS, "gpu.env"}
    assert names - {*SCRIPTS} == {"kubernetes.sh"}
    for name in SCRIPTS:
        entry = found[f"{FOLDER}/{name}"]
        assert (entry["encoding"], entry["permissions"]) == ("gzip+base64", "0755")
        content = gzip.decompress(base64.b64decode(entry["content"]))
        assert content == (scripts / name).read_bytes()


def test_the_same_each_time() -> None:
    """Nothing of the hour or the process is in it."""
    assert msgspec.json.encode(rendered({})) == msgspec.json.encode(rendered({}))


def test_small() -> None:
    """All of it takes less than 24 KiB of user data."""
    assert len(msgspec.json.encode(rendered({}))) < 24 * 1024


def test_clean_scripts() -> None:
    """Every script is clean to shellcheck."""
    program = shutil.which("shellcheck")
    assert program, "shellcheck is a dependency of the tests"
    folder = Path(__file__).parents[3]
    scripts = sorted((folder / "src/capvco/bootstrap/scripts").glob("*.sh"))
    done = subprocess.run(
        [program, *(str(s.relative_to(folder)) for s in scripts)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
