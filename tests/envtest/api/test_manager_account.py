"""The declared rights suffice: the real manager works under its own account."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from msgspec import convert

from capvco.release.rbac import NAMESPACE, SERVICE_ACCOUNT
from kubelocal import LocalCluster
from tests.envtest.api.apiserver import Apiserver, Json
from tests.envtest.api.clusterctl import eventually, gpu_demo

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Manager:
    """A running manager, and what it says of itself."""

    def __init__(self, address: str, log: Path) -> None:
        self._address = address
        self.log = log

    def page(self, path: str) -> httpx2.Response | None:
        try:
            return httpx2.get(f"http://{self._address}{path}", trust_env=False)
        except httpx2.TransportError:
            return None

    def is_ready(self) -> bool:
        answer = self.page("/readyz")
        return answer is not None and answer.status_code == 200


@pytest.fixture
def manager(installed: LocalCluster, api: Apiserver, tmp_path: Path) -> Iterator[Manager]:
    """Run the manager for the test's namespace, with the rights of its ServiceAccount."""
    account = installed.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT, tmp_path / "sa.yaml")
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "capvco", "--kubeconfig", str(account), "--leader-elect"]
    command += ["--leader-election-namespace", NAMESPACE, "--namespace", api.namespace]
    command += ["--health-addr", address, "--diagnostics-address", address]
    running = Manager(address, tmp_path / "manager.log")
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    with (
        running.log.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
    ):
        try:
            eventually(running.is_ready, "the manager is ready")
            yield running
        finally:
            process.terminate()
            process.wait(20)
    assert process.returncode == 0, running.log.read_text()


def test_the_manager_needs_no_other_right(
    installed: LocalCluster, api: Apiserver, manager: Manager
) -> None:
    """It leads, reads, reports and tells, and no request is refused."""
    installed.apply(gpu_demo(installed, api.namespace))

    def capacity() -> object:
        return api.get("VCOMachineTemplate", "gpu-demo-gpu").part("status.capacity")

    def reason() -> list[object]:
        conditions = api.get("VCOCluster", "gpu-demo").part("status.conditions") or []
        ready = [item for item in convert(conditions, list[Json]) if item["type"] == "Ready"]
        return [condition["reason"] for condition in ready]

    def events() -> list[object]:
        found = installed.kubectl("get", "events", "-n", api.namespace, "-o", "json")
        return [item["reason"] for item in json.loads(found)["items"]]

    eventually(lambda: capacity() is not None, "the template says what a node will be")
    assert convert(capacity(), dict[str, str])["nvidia.com/gpu"] == "1"
    eventually(lambda: reason() == ["CredentialsInvalid"], "the missing Secret is reported")
    eventually(lambda: "CredentialsInvalid" in events(), "the missing Secret is told as an Event")
    holder = installed.kubectl(
        *("get", "lease", "controller-leader-election-capvco", "-n", NAMESPACE),
        *("-o", "jsonpath={.spec.holderIdentity}"),
    )
    assert holder
    metrics = manager.page("/metrics")
    assert metrics is not None
    codes = re.findall(r'rest_client_requests_total\{code="(\w+)"', metrics.text)
    assert "200" in codes
    assert "403" not in codes
