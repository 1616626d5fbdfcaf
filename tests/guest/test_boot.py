"""A worker's first boot, for real, whatever it has and whatever becomes of it: it joins."""

import json
import re

import pytest

from capvco.services.labels import ZONE_LABEL
from tests.guest.guests import KUBEADM, Booted
from tests.guest.workers import Workers
from tests.support.scenario import LOCATION

pytestmark = [pytest.mark.guest, pytest.mark.timeout(7200)]


@pytest.fixture(params=["worker", "failing", "plain"])
def booted(request: pytest.FixtureRequest) -> Booted:
    """Give one guest after the other."""
    found: Booted = request.getfixturevalue(request.param)
    return found


def test_cloud_init_takes_the_user_data(booted: Booted) -> None:
    """All its stages end well, and it finds nothing wrong with what it was given."""
    assert "guest: cloud-init status: done" in booted.console
    stages = json.loads(booted.text("var/lib/cloud/data/status.json"))["v1"]
    assert {n: s["errors"] for n, s in stages.items() if isinstance(s, dict) and s["errors"]} == {}
    assert "Valid cloud-config: system userdata" in booted.text("run/guest/schema")


def test_our_steps_run_before_kubeadm(booted: Booted) -> None:
    """On the console as by the times of what they leave; first Kubernetes, then the GPU."""
    times = dict(line.rsplit(" ", 1) for line in booted.text("run/guest/times").splitlines())
    joined = float(times.pop("run/cluster-api/bootstrap-success.complete"))
    gpu = [] if booted.name == "plain-worker" else ["gpu"]
    assert list(times) == [f"var/lib/capvco/{name}.status" for name in ["kubernetes", *gpu]]
    assert max(map(float, times.values())) < joined
    results = [r"^capvco: Kubernetes step: ok ", r"^capvco: GPU step: (ok|failed) "]
    order = [booted.where(pattern) for pattern in [*results[: len(times)], KUBEADM]]
    assert order == sorted(order)


def test_kubeadm_joins(workers: Workers, booted: Booted) -> None:
    """Whatever became of the steps: the Machine has its node, by the provider id."""
    assert "guest: kubeadm success" in booted.console
    provider_id = workers.vco_machine(booted.name)["spec"]["providerID"]
    assert booted.node["spec"]["providerID"] == provider_id
    workers.until(
        "the Machine's node",
        lambda: (workers.get("machines", booted.name) or {})["status"].get("nodeRef"),
    )
    machine = workers.get("machines", booted.name) or {}
    assert machine["status"]["nodeRef"]["name"] == booted.name
    version = machine["spec"]["version"]
    assert booted.node["status"]["nodeInfo"]["kubeletVersion"] == version


def test_the_node_has_its_labels(booted: Booted) -> None:
    """All that the user data has; a real API server lets a kubelet say them of its node."""
    labels = booted.node["metadata"]["labels"]
    flags = booted.text("var/lib/kubelet/kubeadm-flags.env")
    (written,) = re.findall(r"--node-labels=(\S+?)[\s\"]", flags)
    assert dict(part.split("=") for part in written.split(",")).items() <= labels.items()
    assert labels[ZONE_LABEL] == LOCATION


def test_the_guests_clock_is_cheap(booted: Booted) -> None:
    """Else a guest without KVM is many times slower, and deadlines are missed for no reason."""
    assert booted.text("run/guest/clocksource").strip() in {"tsc", "kvm-clock"}
