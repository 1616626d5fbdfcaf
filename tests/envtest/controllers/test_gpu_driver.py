"""What becomes of ``driverVersion``: user data, refusals before money, and GPUDriverReady."""

import base64

import httpx2
import pytest

from tests.envtest.controllers.stage import A100, DUMMY, Stage
from tests.support.scenario import condition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
WITH_DRIVER = {**A100, "driverVersion": "570"}
FAILED = "failed preflight BARUnassigned branch=- cards=0 bus=1: BAR1 has no address\n"
OK = "ok verify - branch=570 cards=1 bus=1\n"


def node_says(stage: Stage, name: str, line: str) -> None:
    """Leave a result on the node, as the GPU step does."""
    simulator, status = stage.simulator, stage.vco_machine(name)["status"]
    where = f"cloudspaces/{status['cloudspaceID']}/vms/{status['vmID']}"
    content = base64.b64encode(line.encode()).decode()
    done = httpx2.post(
        f"{simulator.url}/customers/{simulator.customer_id}/{where}/file",
        headers=simulator.headers,
        json={"filepath": "/var/lib/capvco/gpu.status", "content": content, "append": False},
        trust_env=False,
    )
    assert done.status_code == 200, done.text


def driver(stage: Stage, name: str) -> tuple[str, str]:
    """Return status and reason of GPUDriverReady."""
    conditions = stage.vco_machine(name)["status"].get("conditions", [])
    found = next((c for c in conditions if c["type"] == "GPUDriverReady"), None)
    return (found["status"], found["reason"]) if found else ("", "")


def test_the_node_reports(stage: Stage) -> None:
    """Not known first, then what the node says; Ready does not depend on it."""
    stage.put_machine("reports", gpu=WITH_DRIVER)
    stage.up("reports")
    expected = ("Unknown", "InstallingGPUDriver")
    stage.until("the first look", lambda: driver(stage, "reports") == expected)
    stage.restart_manager(lambda: node_says(stage, "reports", FAILED))
    expected = ("False", "GPUDriverFailed")
    stage.until("the failure", lambda: driver(stage, "reports") == expected)
    found = condition(stage.vco_machine("reports"), "GPUDriverReady")
    assert found["message"].startswith("BARUnassigned at step preflight: BAR1 has no address")
    assert condition(stage.vco_machine("reports"), "Ready")["status"] == "True"
    stage.restart_manager(lambda: node_says(stage, "reports", OK))
    stage.until("the cure", lambda: driver(stage, "reports") == ("True", "Ready"))
    stage.down("reports")


def test_without_a_driver_version(stage: Stage) -> None:
    """Nothing is asked of the node, and nothing is said of it."""
    stage.put_machine("plain", gpu=A100)
    stage.up("plain")
    before = stage.now()
    stage.restart_manager()
    stage.until("some passes", lambda: len(stage.simulator.control.calls(after=before)) > 5)
    vm_id = stage.vco_machine("plain")["status"]["vmID"]
    assert not [
        call
        for call in stage.simulator.control.calls(method="GET")
        if call.path.endswith(f"/vms/{vm_id}/file")
    ]
    assert driver(stage, "plain") == ("", "")
    stage.down("plain")


def test_a_driver_for_a_stub(stage: Stage) -> None:
    """Said, and nothing is reserved."""
    stage.put_machine("stub", gpu={**DUMMY, "driverVersion": "570"})
    message = stage.says("stub", "DriverForStubProfile")
    assert "leave it empty" in message
    assert stage.bought("stub") == []
    stage.down("stub")


def test_uefi_is_warned_of(stage: Stage) -> None:
    """The image's boot type is asked first; a GPU with uefi is a warning, not a refusal."""
    stage.put_machine("uefi", gpu=A100, bootType="uefi")
    assert stage.says("uefi", "BootTypeMismatch")
    assert stage.bought("uefi") == []
    stage.down("uefi")
