"""A first boot from a plain image: Kubernetes comes from its repository, then the node joins."""

import pytest

from kubelocal.catalogue import KUBERNETES_VERSION
from tests.guest.guests import Booted
from tests.guest.programs import CONTAINERD

pytestmark = [pytest.mark.guest, pytest.mark.timeout(7200)]

RESULT = f"ok verify - kubeadm={KUBERNETES_VERSION} containerd={CONTAINERD.version}"


def test_kubernetes_is_installed(plain: Booted) -> None:
    """By the real apt, from a signed repository; held, and told."""
    assert plain.text("var/lib/capvco/kubernetes.status") == f"{RESULT}\n"
    assert f"capvco: Kubernetes step: {RESULT}" in plain.console
    log = plain.text("var/log/capvco-kubernetes.log")
    for name in ("containerd", "kubeadm", "kubelet"):
        assert f"Setting up {name} (" in log
    held = plain.text("run/guest/held").splitlines()
    assert set(held) == {"kubeadm", "kubectl", "kubelet"}


def test_containerd_is_what_the_kubelet_wants(plain: Booted) -> None:
    """The configuration in effect has cgroups by systemd and kubeadm's pause image."""
    info = plain.node["status"]["nodeInfo"]
    assert info["containerRuntimeVersion"].startswith(f"containerd://{CONTAINERD.version}")
    effective = plain.text("run/guest/containerd.toml")
    assert "SystemdCgroup = true" in effective
    (pause,) = {line for line in plain.text("run/guest/images").splitlines() if "/pause:" in line}
    assert f"sandbox = '{pause}'" in effective


def test_an_image_that_has_it_is_left_alone(worker: Booted) -> None:
    """Nothing is installed, and the step takes no time worth speaking of."""
    status = worker.text("var/lib/capvco/kubernetes.status")
    assert status.startswith("ok present - ")
    assert "are there: nothing is installed" in worker.text("var/log/capvco-kubernetes.log")
    assert worker.text("run/guest/held").splitlines() != []  # the driver's alone
    assert "kubeadm" not in worker.text("run/guest/held")
