"""The demo's user: wants a pool of GPU workers, then fewer, then none, and looks at the bill."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from capvco.cli.demo.objects import CLUSTER, NAMESPACE, POOL, Access, Wish, manifests
from capvco.cli.demo.rows import Row, row
from capvco.cli.demo.screen import Screen
from capvco.cli.demo.userdata import readable, size
from kubelocal import LocalCluster
from kubelocal.api import Refused

_GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1beta1"
_MACHINES = f"{_GROUP}/namespaces/{NAMESPACE}/vcomachines"
_VCO_CLUSTER = f"{_GROUP}/namespaces/{NAMESPACE}/vcoclusters/{CLUSTER}"
_CLUSTER = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/clusters/{CLUSTER}"
_LOOK_SECONDS = 0.4

# A JSON document of the simulator's control port.
Document = Mapping[str, Any]


class Failed(Exception):  # noqa: N818 - reads as what happened to the demo
    """The demo did not reach what it shows; the message says what was seen instead."""


class Story:
    """The acts of the demo."""

    def __init__(self, cluster: LocalCluster, control_url: str, screen: Screen) -> None:
        self._cluster = cluster
        self._control = httpx2.Client(base_url=control_url, timeout=10, trust_env=False)
        self._screen = screen
        self._cluster_said = ""

    def ask(self, wish: Wish, access: Access) -> None:
        """Apply the cluster and its pool; return when all machines run."""
        self._screen.title(f'A pool of {wish.machines} workers with type: "{wish.gpu_type}"')
        self._cluster.apply(manifests(wish, access))
        self._until(f"{wish.machines} machines running", lambda rows: _all_run(rows, wish.machines))

    def user_data(self, file: Path) -> None:
        """Print what the first VM of the pool got as its user data; the whole goes into a file."""
        name, document = first_guest(self._control)
        file.write_text(f"#cloud-config\n{yaml.safe_dump(document, sort_keys=False)}")
        self._screen.title(f"The user data of {name}, {size(document)} bytes as JSON")
        self._screen.text(readable(document))
        self._screen.say(f"with its scripts: {file}; nothing is masked, the token is made up")

    def scale(self, machines: int) -> None:
        """Scale the pool; return when the machines that are too many are gone."""
        self._screen.title(f"Scaled to {machines}")
        self._cluster.kubectl("scale", "machinedeployment", POOL, f"--replicas={machines}")
        self._until(f"{machines} machine(s) left", lambda rows: _all_run(rows, machines))
        held = self.ledger()["held"]
        self._screen.say(f"the ledger holds {held} reservation(s)")
        if held != machines:
            raise Failed(f"{machines} machine(s) left, but {held} reservation(s) are held")

    def delete(self) -> None:
        """Delete the cluster; return when it is gone."""
        self._screen.title("Cluster deleted")
        self._cluster.kubectl("delete", "cluster", CLUSTER, "--wait=false")
        self._until("the cluster gone", lambda rows: not rows and not self._exists(_CLUSTER))

    def ledger(self) -> Document:
        """Return the simulator's totals."""
        found: Document = self._control.get("/ledger").raise_for_status().json()["totals"]
        return found

    def settle(self) -> None:
        """Print the bill. Raises Failed unless all was released and no request was wrong."""
        self._screen.title("The cloud's ledger")
        totals = self.ledger()
        for name in ("made", "released", "held"):
            self._screen.say(f"reservations {name:<9} {totals[name]}")
        breaches = self._control.get("/breaches").raise_for_status().json()
        wrong = [*breaches["client"], *breaches["simulator"]]
        self._screen.say(f"requests outside the vendor's API description: {len(wrong)}")
        if totals["held"] or totals["made"] != totals["released"] or wrong:
            raise Failed(f"the ledger does not balance, or requests were wrong: {wrong[:3]}")

    def _until(self, what: str, done: Callable[[Mapping[str, Row]], bool]) -> None:
        deadline = time.monotonic() + 180
        while True:
            rows = self._look()
            if done(rows):
                self._screen.settle()
                return
            if time.monotonic() > deadline:
                raise Failed(f"waited in vain for {what}; seen: {[*rows.values()]}")
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> Mapping[str, Row]:
        self._look_at_cluster()
        found = self._cluster.read(_MACHINES)["items"]
        rows = {item["metadata"]["name"]: row(item) for item in found}
        self._screen.show(rows)
        return rows

    def _look_at_cluster(self) -> None:
        if not self._exists(_VCO_CLUSTER):
            return
        status = self._cluster.read(_VCO_CLUSTER).get("status", {})
        said = ""
        for site in status.get("sites", []):
            said = f"cloudspace {site.get('cloudspaceID', '')} at {site.get('externalIP', '')}"
        if status.get("initialization", {}).get("provisioned"):
            said += ", load balancer serves the control-plane endpoint"
        if said and said != self._cluster_said:
            self._screen.say(f"{CLUSTER:<24} {said}")
            self._cluster_said = said

    def _exists(self, path: str) -> bool:
        try:
            self._cluster.read(path)
        except Refused as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return False
            raise
        return True


def first_guest(control: httpx2.Client) -> tuple[str, dict[str, Any]]:
    """Return the name of the first VM there is, and the user data that it got."""
    vms = control.get("/vms").raise_for_status().json()
    vm = min(vms, key=lambda one: str(one["name"]))
    path = f"/vms/{vm['location']}/{vm['id']}/userdata"
    document = control.get(path).raise_for_status().json()["userdata"]
    return str(vm["name"]), document


def _all_run(rows: Mapping[str, Row], count: int) -> bool:
    return len(rows) == count and all(found.running for found in rows.values())
