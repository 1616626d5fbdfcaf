"""A GPU worker's first boot, for real: driver, runtime, marker; and one where the driver fails."""

import pytest

from capvco.api.v1beta1 import GPU_MODEL_LABEL
from capvco.bootstrap.gpu_result import RESULT_FILE
from capvco.services.labels import ACCELERATOR_LABEL
from tests.guest.guests import KUBEADM, Booted
from tests.guest.programs import BRANCH
from tests.guest.workers import Workers
from tests.support.scenario import condition

pytestmark = [pytest.mark.guest, pytest.mark.timeout(7200)]

RESULT = f"ok verify - branch={BRANCH} cards=1 bus=1"
FAILED = "failed driver BranchUnknown branch=- cards=0 bus=1: "


def result(booted: Booted) -> str:
    """Return the marker, which is in two places."""
    kept = booted.text(RESULT_FILE.lstrip("/"))
    assert kept == booted.text("run/capvco/gpu.status")
    return kept.rstrip("\n")


def reported(workers: Workers, booted: Booted) -> tuple[str, str]:
    """Let the VM's agent show the marker; return status and message of the condition."""
    workers.agent_has(booted.name, RESULT_FILE, booted.files[RESULT_FILE.lstrip("/")])
    workers.kill_manager()
    workers.start_manager()  # which looks at once

    def found() -> tuple[str, str]:
        said = condition(workers.vco_machine(booted.name), "GPUDriverReady")
        return said["status"], said.get("message", "")

    workers.until("the driver's condition", lambda: found()[0] != "Unknown")
    return found()


def model(booted: Booted) -> set[str]:
    """Return what the node says of its cards' model."""
    labels = booted.node["metadata"]["labels"]
    return {labels.get(GPU_MODEL_LABEL, "none"), labels.get(ACCELERATOR_LABEL, "none")}


def handlers(booted: Booted) -> set[str]:
    """Return the runtimes of the daemon that runs, as it told the kubelet."""
    return {found["name"] for found in booted.node["status"]["runtimeHandlers"]}


def test_the_node_has_the_cards_model(worker: Booted) -> None:
    """As slug, in both labels."""
    assert model(worker) == {"nvidia-a100"}


def test_the_node_has_the_cards_model_without_a_driver(failing: Booted) -> None:
    """It has the card all the same."""
    assert model(failing) == {"nvidia-a100"}


def test_a_node_without_a_card(plain: Booted) -> None:
    """Has neither label, step nor marker."""
    assert model(plain) == {"none"}
    assert "capvco: preflight: started" not in plain.console
    assert RESULT_FILE.lstrip("/") not in plain.files


def test_the_driver_binds(worker: Booted) -> None:
    """The kernel has given the card to it; marker and console say so."""
    assert result(worker) == RESULT
    assert f"capvco: GPU step: {RESULT}" in worker.console
    assert f"guest: gpu {RESULT}" in worker.console
    assert "0000:80:00.0" in worker.text("run/guest/bound")
    log = worker.text("var/log/capvco-gpu.log")
    assert "Setting up nvidia-container-toolkit " in log
    assert f"Setting up linux-modules-nvidia-{BRANCH}-server-" in log


def test_containerd_serves_the_runtime(worker: Booted) -> None:
    """The daemon itself, not a file; with cgroups as runc has them."""
    assert {"runc", "nvidia"} <= handlers(worker)
    effective = worker.text("run/guest/containerd.toml")
    section = effective.partition("runtimes.nvidia.options]")[2].partition("[")[0]
    assert "SystemdCgroup = true" in section


def test_without_a_driver_containerd_is_left_alone(failing: Booted) -> None:
    """What comes after a step that failed does not run."""
    assert "runc" in handlers(failing)
    assert "nvidia" not in handlers(failing)
    assert "etc/containerd/conf.d/99-nvidia.toml" not in failing.files


def test_a_second_run_changes_nothing(worker: Booted) -> None:
    """No file of the system's settings, no package, nor the daemon; and it ends well again."""
    assert worker.text("run/guest/again").endswith("status 0\n")
    before = worker.text("run/guest/before").splitlines()
    assert f"nvidia-driver-{BRANCH}-server" in before  # held
    assert worker.text("run/guest/after").splitlines() == before


def test_a_failure_is_told(failing: Booted) -> None:
    """Cause, words and cure are on the console and in the marker."""
    assert result(failing).startswith(FAILED)
    assert f"branches it has: {BRANCH}" in result(failing)
    error = failing.where(r"^capvco: ERROR: driver: BranchUnknown: .*branches it has: ")
    assert error < failing.where(KUBEADM)
    assert f"capvco: GPU step: {result(failing)}" in failing.console
    assert failing.console.count("capvco: toolkit: started") == 0


def test_the_result_reaches_the_machine(workers: Workers, worker: Booted, failing: Booted) -> None:
    """Through the agent, which is simulated; the file is what the guest really wrote."""
    assert reported(workers, worker)[0] == "True"
    status, message = reported(workers, failing)
    assert status == "False"
    assert message.startswith("BranchUnknown at step driver: ")
