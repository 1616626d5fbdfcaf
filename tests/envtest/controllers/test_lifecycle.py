"""One machine and one cluster, from nothing to nothing, through real Cluster API managers."""

import pytest

from capvco.api.v1beta1 import RECORD_ANNOTATION
from tests.support.scenario import Scenario, condition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
A100 = {"type": "NVIDIA A100", "count": 1}


def test_a_gpu_machine_comes_up_and_goes(scenario: Scenario) -> None:
    """Reserved, attached, booted, recorded; then deleted, and the ledger reads zero."""
    scenario.start_manager()
    scenario.put_cluster()
    scenario.put_machine("worker", gpu=A100)
    scenario.until("the machine", lambda: scenario.running("worker"))

    found = scenario.vco_machine("worker")
    (gpu,) = found["status"]["gpus"]
    assert gpu["name"] == "capvco-worker-gpu-0"
    assert gpu["model"] == "NVIDIA A100"
    assert gpu["attached"] is True
    assert found["spec"]["providerID"].startswith("vco://be-mac-dc01-001/")
    assert found["status"]["initialization"]["provisioned"] is True
    assert scenario.held == 1
    for type_ in ("GPUReserved", "VMProvisioned", "GPUAttached"):
        assert condition(found, type_)["status"] == "True"
    (vm,) = scenario.simulator.control.vms()
    assert vm.status == "RUNNING"

    scenario.delete("clusters", "demo")
    scenario.until("the cluster gone", lambda: scenario.gone("clusters", "demo"))
    assert scenario.held == 0
    assert scenario.made == 1
    assert scenario.vm_names() == []


def test_a_wrong_type_says_what_there_is_and_heals_by_itself(scenario: Scenario) -> None:
    """The message lists the offers; capacity that returns provisions the machine."""
    control = scenario.simulator.control
    cards = [c for c in control.cards.list("be-mac-dc01-001") if c.model.startswith("L4 ")]
    for card in cards:
        control.cards.set("be-mac-dc01-001", card.id, 0)
    scenario.start_manager()
    scenario.put_cluster()
    scenario.put_machine("worker", gpu={"type": "NVIDIA L4", "count": 1})
    scenario.until(
        "the refusal",
        lambda: (
            condition(scenario.vco_machine("worker"), "Ready").get("reason") == "GPUTypeUnavailable"
        ),
    )
    status = scenario.vco_machine("worker")["status"]
    assert '"NVIDIA" (2 card(s), 0 free, e.g. model "L4")' in status["failureMessage"]
    assert status["failureReason"] == "GPUTypeUnavailable"
    assert scenario.made == 0

    control.cards.set("be-mac-dc01-001", cards[0].id, 1)
    scenario.until("the machine", lambda: scenario.running("worker"))
    status = scenario.vco_machine("worker")["status"]
    assert "failureMessage" not in status
    assert "failureReason" not in status


def test_a_cluster_whose_record_was_removed_is_not_let_go(scenario: Scenario) -> None:
    """The cloudspace would be forgotten; restoring the annotation lets the deletion go on."""
    scenario.start_manager()
    scenario.put_cluster()
    scenario.until(
        "the cluster",
        lambda: (
            condition(scenario.get("vcoclusters", "demo") or {}, "Ready").get("status") == "True"
        ),
    )
    found = scenario.get("vcoclusters", "demo")
    assert found is not None
    kept = found["metadata"]["annotations"][RECORD_ANNOTATION]
    kind = "vcoclusters.infrastructure.cluster.x-k8s.io"
    scenario.kubectl("annotate", kind, "demo", f"{RECORD_ANNOTATION}-")
    scenario.delete("clusters", "demo")
    scenario.until(
        "the refusal",
        lambda: (
            condition(scenario.get("vcoclusters", "demo") or {}, "Ready").get("reason")
            == "RecordUnreadable"
        ),
    )
    scenario.kubectl("annotate", kind, "demo", f"{RECORD_ANNOTATION}={kept}")
    scenario.until("the end", lambda: scenario.gone("clusters", "demo"))
    spaces = scenario.simulator.control.state().get("cloudspace", [])
    assert [space for space in spaces if space.get("status") != "DESTROYED"] == []
