"""What Cluster API expects of a VCOMachine: gates, pauses, scope, and nothing for nothing."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from capvco.controllers.turns import BUDGET
from tests.envtest.controllers.stage import A100, CREATE_VM, DUMMY, RESERVE, Stage
from tests.support.scenario import (
    CAPI,
    LOCATION,
    Object,
    a_machine,
    a_vco_machine,
    condition,
)
from vcosim.journal import Logged

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
PAUSED = f"{CAPI}/paused"
UEFI_IMAGE = 202
VMS = "/customers/{customer_id}/cloudspaces/{cloudspace_id}/vms"
AGENT_FILE = f"{VMS}/{{vm_id}}/file"


def paused(stage: Stage, name: str) -> str:
    """Return the message of a Paused condition that holds, empty otherwise."""
    found = condition(stage.vco_machine(name), "Paused")
    return str(found.get("message", "")) if found.get("status") == "True" else ""


def annotate(stage: Stage, name: str, value: str | None) -> None:
    """Set or remove the annotation that pauses a VCOMachine."""
    stage.patch("vcomachines", name, {"metadata": {"annotations": {PAUSED: value}}})


def secret(name: str, value: str, format_: str = "cloud-config") -> Object:
    """Return a bootstrap data secret."""
    data = {"value": value, "format": format_}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


@pytest.fixture(scope="module", autouse=True)
def _orphan(stage: Stage) -> None:
    """Make a machine that nobody owns, early: an owner is given some seconds to turn up."""
    stage.apply(a_vco_machine("orphan", "demo", gpu=DUMMY))


def test_paused_before_anything(stage: Stage) -> None:
    """By annotation or by the Cluster: nothing is bought, released or forgotten meanwhile."""
    stage.put_machine("going", gpu=DUMMY)
    # Owned already, and not to be bought for yet: Cluster API adopts nothing that is paused.
    stage.apply(a_vco_machine("held-back", "demo", gpu=DUMMY), a_machine("held-back", "demo"))
    stage.up("going")
    stage.says("held-back", "BootstrapDataInvalid")
    annotate(stage, "held-back", "")
    stage.until("the annotation to be seen", lambda: PAUSED in paused(stage, "held-back"))
    stage.apply(secret("held-back-bootstrap", "#cloud-config\nruncmd: [echo]\n"))
    stage.patch("clusters", "demo", {"spec": {"paused": True}})
    stage.until("the Cluster to pause", lambda: "spec.paused" in paused(stage, "going"))
    before = stage.now()
    stage.patch("vcomachines", "going", {"metadata": {"labels": {"touched": "yes"}}})
    # Cluster API is paused too: the deletion has to come from a person.
    stage.delete("vcomachines", "going")
    stage.deleting("going")
    stage.put_machine("born-paused", gpu=DUMMY)
    stage.until("the newcomer to pause", lambda: paused(stage, "born-paused"))
    assert stage.mutations(after=before) == []
    assert "finalizers" in stage.vco_machine("going")["metadata"]
    assert len(stage.holdings("going")) == 1

    stage.patch("clusters", "demo", {"spec": {"paused": None}})
    stage.vanished("going")
    stage.up("born-paused")
    assert paused(stage, "held-back")
    assert stage.bought("held-back") == []
    annotate(stage, "held-back", None)
    stage.up("held-back")
    stage.down("held-back", "born-paused")
    stage.down("going")
    assert stage.holdings("going", "held-back", "born-paused") == []


def lists_meanwhile(stage: Stage, looks: int) -> int:
    """Return how often VMs are listed while so many looks are taken at machines."""
    count = partial(stage.metric, "controller_runtime_reconcile_total", controller="vcomachine")
    idle, before = stage.now(), count()
    stage.until("some looks", lambda: count() >= before + looks)
    return len(stage.simulator.control.calls(method="GET", route=VMS, after=idle))


BAD_DATA = {
    "no-secret": (None, "does not exist"),
    "no-yaml": (secret("no-yaml-data", "#cloud-config\nkey: [password-1"), "YAML"),
    "ignition": (
        secret("ignition-data", '{"ignition": {"password": "password-1"}}', "ignition"),
        "gnition",
    ),
    "too-large": (secret("too-large-data", f"#cloud-config\nx: {'password-1' * 30_000}"), "bytes"),
}


def test_bootstrap_data_that_cannot_be_used(stage: Stage) -> None:
    """It is said before anything is bought, without showing any of it; corrected, it goes on."""
    for name, (data, _) in BAD_DATA.items():
        if data is not None:
            stage.apply(data)
        machine = a_machine(name, "demo", bootstrap={"dataSecretName": f"{name}-data"})
        stage.apply(a_vco_machine(name, "demo", gpu=DUMMY), machine)
    for name, (_, words) in BAD_DATA.items():
        message = stage.says(name, "BootstrapDataInvalid")
        assert words in message
        assert "password-1" not in message
    assert stage.bought(*BAD_DATA) == []
    assert lists_meanwhile(stage, looks=8) == 0
    stage.apply(secret("no-secret-data", "#cloud-config\nruncmd: [echo]\n"))
    stage.up("no-secret")
    stage.down(*BAD_DATA)
    assert "password-1" not in stage.log.read_text()


def test_what_cannot_be_made_costs_nothing(stage: Stage) -> None:
    """Image and boot type are checked first, and the message has what there is."""
    stage.put_machine("no-image", gpu=DUMMY, imageID=301)
    stage.put_machine("no-boot", gpu=DUMMY, bootType="uefi")
    message = stage.says("no-image", "ImageUnavailable")
    assert f"no image has the id 301 in {LOCATION}" in message
    assert "201 (Ubuntu 24.04 Kubernetes (bios))" in message
    message = stage.says("no-boot", "BootTypeMismatch")
    assert "Selected boot type can not be different from image boot type" in message
    assert lists_meanwhile(stage, looks=4) == 0
    stage.put_machine("uefi", bootType="uefi", imageID=UEFI_IMAGE)
    stage.up("uefi")
    assert stage.bought("no-image", "no-boot") == []
    stage.down("no-image", "no-boot", "uefi")
    assert [stage.vms_ever(name) for name in ("no-image", "no-boot", "uefi")] == [0, 0, 1]


def test_an_unknown_failure_domain(stage: Stage) -> None:
    """The message has those that the cluster has."""
    machine = a_machine("lost", "demo", failureDomain="atlantis")
    stage.apply(
        secret("lost-bootstrap", "#cloud-config\n{}\n"),
        a_vco_machine("lost", "demo", gpu=DUMMY),
        machine,
    )
    assert f"available: {LOCATION}" in stage.says("lost", "FailureDomainUnknown")
    stage.down("lost")
    assert stage.bought("lost") == []


def about_gpus(calls: list[Logged]) -> list[str]:
    """Return method and route of the calls that have to do with GPUs."""
    return [f"{c.method} {c.route}" for c in calls if re.search(r"/v?gpus", c.route)]


def test_a_budget_of_calls(stage: Stage) -> None:
    """One machine with one GPU: six calls about GPUs to make it, three to take it away.

    In between, nothing is written to Kubernetes and nothing changed in the cloud; each condition
    was told once.
    """
    control = stage.simulator.control
    before = stage.now()
    stage.put_machine("frugal", gpu=DUMMY)
    stage.until(
        "the VM to be started", lambda: (stage.vm("frugal") or None) and stage.running("frugal")
    )
    started = next(c for c in stage.mutations(after=before) if c.route.endswith("/start"))
    made = [c for c in control.calls(after=before) if c.seq <= started.seq]
    assert len(about_gpus(made)) <= 6, about_gpus(made)
    assert (
        about_gpus(made).count("POST /customers/{customer_id}/locations/{location}/gpus/{gpu_id}")
        == 1
    )

    writes, idle = stage.writes(), stage.now()
    looks = stage.metric("controller_runtime_reconcile_total", controller="vcomachine")
    stage.until(
        "three looks at a machine that is well",
        lambda: (
            stage.metric("controller_runtime_reconcile_total", controller="vcomachine") >= looks + 3
        ),
    )
    assert stage.writes() == writes
    assert stage.mutations(after=idle) == []
    assert stage.writes() > 0
    told = [reason for reason, _ in stage.events("frugal")]
    assert sorted(told) == sorted(set(told)), told

    before = stage.now()
    stage.down("frugal")
    deleted = [c for c in control.calls(after=before) if c.method == "DELETE"]
    release = next(c for c in deleted if "/vgpus/" in c.path)
    # A look at the living machine may have begun before.
    first = next(c for c in deleted if "/vms/" in c.path)
    gone = control.calls(after=first.seq - 1)
    assert len(about_gpus(gone)) <= 3, about_gpus(gone)
    assert release.seq > first.seq


def test_many_at_rest_cost_what_few_cost(stage: Stage) -> None:
    """Of machines whose nodes show no result of the GPU step: lists and questions are shared.

    Twelve machines would be asked twelve times a minute if each were asked once.
    """
    cards, names = stage.simulator.control.cards, [f"rest-{number}" for number in range(12)]
    for card in stage.cards("A100"):
        cards.set(LOCATION, card, 3)
    for name in names:
        stage.put_machine(name, gpu=A100 | {"driverVersion": "570"})
    stage.up(*names)
    asked = partial(stage.simulator.control.calls, method="GET", route=AGENT_FILE)
    stage.until("the questions", lambda: len(asked()) >= BUDGET)
    looks = partial(stage.metric, "controller_runtime_reconcile_total", controller="vcomachine")
    idle, before = stage.now(), looks()
    stage.until("three looks at each", lambda: looks() >= before + 3 * len(names))
    calls = stage.simulator.control.calls(after=idle)
    seconds = calls[-1].started - calls[0].started
    # A list of VMs and one of vGPUs for half an interval, and what the cluster asks for itself.
    assert len(calls) <= (seconds + 1) * 2 + (seconds / 2 + 1) * 4, routes(calls)
    assert stage.mutations(after=idle) == []
    moments = [call.started for call in asked()]
    assert max(bisect_left(moments, at + 60) - i for i, at in enumerate(moments)) <= BUDGET
    assert len({call.path for call in asked()}) == BUDGET
    stage.down(*names)
    for card in stage.cards("A100"):
        cards.set(LOCATION, card, 1)


def routes(calls: list[Logged]) -> str:
    """Say how often what was called."""
    return str(Counter(f"{call.method} {call.route}" for call in calls))


def test_the_order_of_things(stage: Stage) -> None:
    """The finalizer and the record come before the first payment, the VM is started last."""
    with stage.held_call("POST", RESERVE) as arrived:
        stage.put_machine("orderly", gpu=DUMMY)
        stage.until("the first payment", arrived)
        found = stage.vco_machine("orderly")
        assert any("vcomachine" in one for one in found["metadata"]["finalizers"])
        assert "capvco-orderly-gpu-0" in str(found["metadata"]["annotations"])
        assert found["spec"]["providerID"]
    with stage.held_call("POST", CREATE_VM) as arrived:
        stage.until("the VM to be asked for", arrived)
        (row,) = stage.holdings("orderly")
        assert row.vgpu_id in str(stage.vco_machine("orderly")["metadata"]["annotations"])
    stage.up("orderly")
    calls = [c.route.rpartition("}")[2] for c in stage.mutations() if c.status == 200][-4:]
    assert calls[-1] == "/start"
    stage.down("orderly")


@pytest.fixture
def filtered(stage: Stage) -> Iterator[Stage]:
    """Run the manager with a watch filter for one test."""
    stage.flags["watch-filter"] = "ours"
    stage.restart_manager()
    yield stage
    del stage.flags["watch-filter"]
    stage.restart_manager()


def test_a_watch_filter(filtered: Stage) -> None:
    """Only objects with the label are looked at; the cluster's are among them."""
    label = {"metadata": {"labels": {f"{CAPI}/watch-filter": "ours"}}}
    filtered.patch("vcoclusters", "demo", label)
    filtered.put_machine("theirs", gpu=DUMMY)
    filtered.put_machine("chosen", gpu=DUMMY)
    filtered.patch("vcomachines", "chosen", label)
    filtered.up("chosen")
    assert "status" not in filtered.vco_machine("theirs")
    assert filtered.bought("theirs") == []
    filtered.patch("vcomachines", "theirs", label)
    filtered.up("theirs")
    filtered.down("chosen", "theirs")


def test_what_a_person_sees(stage: Stage) -> None:
    """``kubectl get`` and ``clusterctl describe`` show type, model, ids and cause, as they are."""
    stage.put_machine("seen", gpu=DUMMY)
    stage.put_machine("stuck", gpu={"type": "NVIDIA H100", "count": 1})
    stage.up("seen")
    stage.says("stuck", "GPUTypeUnavailable")
    found = stage.vco_machine("seen")
    rows = {r.split()[0]: r for r in stage.kubectl("get", "vcomachine").splitlines()}
    assert all(word in rows["seen"] for word in ("Dummy GPU", "Dummy Dummy GPU", "Running", "True"))
    assert all(word in rows["stuck"] for word in ("NVIDIA H100", "False", "GPUTypeUnavailable"))
    rows = {r.split()[0]: r for r in stage.kubectl("get", "vcomachine", "-o", "wide").splitlines()}
    status = found["status"]
    for word in (status["gpus"][0]["vgpuId"], str(status["vmID"]), found["spec"]["providerID"]):
        assert word in rows["seen"]
    assert 'no GPU type matches "NVIDIA H100"' in rows["stuck"]
    described = ""

    def shown() -> bool:
        nonlocal described
        described = stage.cluster.clusterctl(
            "describe", "cluster", "demo", "-n", stage.namespace, "--show-conditions", "all",
            "--kubeconfig", str(stage.cluster.kubeconfig),
        )  # fmt: skip
        return 'no GPU type matches "NVIDIA H100"' in described

    stage.until("clusterctl to show the cause", shown)
    assert "stuck" in described
    stage.down("seen", "stuck")


def test_nothing_for_whom_nobody_owns(stage: Stage) -> None:
    """A VCOMachine that a person made alone says what it waits for, and costs nothing."""
    stage.says("orphan", "WaitingForOwner")
    assert stage.bought("orphan") == []
    stage.delete("vcomachines", "orphan")
    stage.vanished("orphan")
