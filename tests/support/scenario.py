"""A namespace of a real management cluster, a simulated cloud, and a manager process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubelocal import LocalCluster
from kubelocal.api import Refused
from tests.support.simulator import Simulator

INFRA = "infrastructure.cluster.x-k8s.io"
CAPI = "cluster.x-k8s.io"
LOCATION = "be-mac-dc01-001"
EXTERNAL_NETWORK = 11
IMAGE = 201
FLAGS = {
    "poll-interval": "0.2s",
    "capacity-interval": "0.5s",
    "settle-time": "2s",
    "sync-period": "2s",
    "vco-rate": "200",
    "vco-burst": "400",
}
USER_DATA = """\
#cloud-config
runcmd:
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml
"""

# A Kubernetes object as JSON has it.
Object = dict[str, Any]


@dataclass
class Scenario:
    """What a test of the whole provider works with."""

    cluster: LocalCluster
    simulator: Simulator
    folder: Path
    namespace: str
    manager: subprocess.Popen[bytes] | None = None
    flags: dict[str, str] = field(default_factory=lambda: dict(FLAGS))
    server: str = ""
    """Where the manager finds the API server, if not where it is."""

    @classmethod
    @contextmanager
    def open(
        cls, cluster: LocalCluster, simulator: Simulator, folder: Path
    ) -> Iterator["Scenario"]:
        """Make the namespace and the credentials; whatever manager runs at the end is ended."""
        made = cls(cluster, simulator, folder, cluster.create_namespace("scenario"))
        made.put_credentials()
        try:
            yield made
        finally:
            made.kill_manager()

    # --- the manager ---

    def start_manager(self) -> None:
        """Start a manager that works on this namespace only, with its ServiceAccount's rights."""
        kubeconfig = self.folder / "kubeconfig"
        if not kubeconfig.exists():
            self.cluster.service_account_kubeconfig("capvco-system", "capvco-manager", kubeconfig)
            if self.server:
                kubeconfig.write_text(kubeconfig.read_text().replace(self.cluster.url, self.server))
        command = [sys.executable, "-m", "capvco", f"--kubeconfig={kubeconfig}"]
        command += [f"--namespace={self.namespace}", "--health-addr=0", "--diagnostics-address=0"]
        command += [
            f"--{name}={value}" if value else f"--{name}" for name, value in self.flags.items()
        ]
        with self.log.open("ab") as log:
            self.manager = subprocess.Popen(command, stderr=log, stdout=log)

    def kill_manager(self) -> None:
        """Kill the manager (-9), if it runs."""
        if self.manager is not None:
            self.manager.kill()
            self.manager.wait()
            self.manager = None

    @property
    def log(self) -> Path:
        """What the managers said."""
        return self.folder / "manager.log"

    # --- what a user applies ---

    def apply(self, *objects: Object) -> None:
        """Apply objects in the namespace."""
        for one in objects:
            one["metadata"]["namespace"] = self.namespace
        self.cluster.apply("\n---\n".join(json.dumps(one) for one in objects))

    def put_credentials(self, **changed: str) -> None:
        """Write the credentials Secret."""
        self.apply(_secret("vco-credentials", self.simulator.secret | changed))

    def put_cluster(self, name: str = "demo", **spec: object) -> None:
        """Apply a Cluster and its VCOCluster."""
        self.apply(a_cluster(name), a_vco_cluster(name, **spec))

    def put_machine(self, name: str, cluster: str = "demo", **spec: object) -> None:
        """Apply a Machine, its VCOMachine and ready bootstrap data."""
        self.apply(
            _secret(f"{name}-bootstrap", {"value": USER_DATA, "format": "cloud-config"}),
            a_vco_machine(name, cluster, **spec),
            a_machine(name, cluster),
        )

    # --- what a test looks at ---

    def path(self, plural: str, name: str = "") -> str:
        """Return the API path of a kind of ours, or of Cluster API's."""
        group, version = (INFRA, "v1beta1") if plural.startswith("vco") else (CAPI, "v1beta2")
        path = f"/apis/{group}/{version}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def get(self, plural: str, name: str) -> Object | None:
        """Return an object, None if there is none."""
        try:
            return self.cluster.read(self.path(plural, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def items(self, plural: str) -> list[Object]:
        """Return all objects of a kind in the namespace."""
        found: list[Object] = self.cluster.read(self.path(plural))["items"]
        return found

    def vco_machine(self, name: str) -> Object:
        """Return a VCOMachine that must be there."""
        found = self.get("vcomachines", name)
        assert found is not None, f"no VCOMachine {name}"
        return found

    def delete(self, plural: str, name: str) -> None:
        """Ask for a deletion."""
        group = INFRA if plural.startswith("vco") else CAPI
        self.kubectl("delete", f"{plural}.{group}", name, "--wait=false")

    def kubectl(self, *args: str) -> str:
        """Run kubectl in the namespace."""
        return self.cluster.kubectl("-n", self.namespace, *args)

    def until(self, what: str, done: Callable[[], object], seconds: float = 45.0) -> None:
        """Look until something holds; fails with the state of all machines and the log's end."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}\n{self.picture()}")
            time.sleep(0.05)

    def picture(self) -> str:
        """Describe what there is, for a failed test."""
        lines = [
            f"{o['kind']} {o['metadata']['name']}: {json.dumps(o.get('status', {}))}"
            for plural in ("vcoclusters", "vcomachines")
            for o in self.items(plural)
        ]
        log = self.log.read_text().splitlines()[-15:] if self.log.exists() else []
        return "\n".join([*lines, *log])

    def running(self, name: str) -> bool:
        """Say whether a VCOMachine is provisioned and ready."""
        found = self.get("vcomachines", name)
        return found is not None and condition(found, "Ready").get("status") == "True"

    def gone(self, plural: str, name: str) -> bool:
        """Say whether an object is gone."""
        return self.get(plural, name) is None

    # --- the cloud ---

    @property
    def held(self) -> int:
        """How many reservations are held and billed."""
        return self.simulator.control.ledger().totals.held

    @property
    def made(self) -> int:
        """How many reservations were ever made."""
        return self.simulator.control.ledger().totals.made

    def vm_names(self) -> list[str]:
        """Names of all VMs that are not destroyed."""
        return sorted(vm.name for vm in self.simulator.control.vms() if vm.status != "DESTROYED")


def condition(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return a condition of an object, empty if it is not set."""
    found = obj.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == type_), {})


def a_cluster(name: str) -> Object:
    """Return a Cluster without a control plane of its own."""
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "infrastructureRef": {"apiGroup": INFRA, "kind": "VCOCluster", "name": name},
        },
    }


def a_vco_cluster(name: str, **spec: object) -> Object:
    """Return a VCOCluster in the first location of the stock world."""
    given = {
        "identityRef": {"name": "vco-credentials"},
        "location": LOCATION,
        "externalNetworkID": EXTERNAL_NETWORK,
    }
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOCluster",
        "metadata": {"name": name},
        "spec": {name: value for name, value in (given | spec).items() if value is not None},
    }


def a_vco_machine(name: str, cluster: str, **spec: object) -> Object:
    """Return a VCOMachine; ``gpu`` and the rest of the spec by keyword."""
    return {
        "apiVersion": f"{INFRA}/v1beta1",
        "kind": "VCOMachine",
        "metadata": {"name": name, "labels": {f"{CAPI}/cluster-name": cluster}},
        "spec": {"imageID": IMAGE} | spec,
    }


def a_machine(name: str, cluster: str, **spec: object) -> Object:
    """Return a Machine of a VCOMachine of the same name."""
    given = {
        "clusterName": cluster,
        "version": "v1.36.3",
        "bootstrap": {"dataSecretName": f"{name}-bootstrap"},
        "infrastructureRef": {"apiGroup": INFRA, "kind": "VCOMachine", "name": name},
    }
    labels = {f"{CAPI}/cluster-name": cluster}
    return {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "labels": labels},
        "spec": given | spec,
    }


def _secret(name: str, data: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": data,
    }
