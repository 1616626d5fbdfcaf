"""GPU workers of a cluster whose API server real guests reach: made by the provider, to be booted.

One control plane plays both parts, the management cluster and the workload cluster. Cluster API's
kubeadm bootstrap provider writes the bootstrap data, the provider under test makes of it what its
simulated cloud hands to a guest.
"""

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import yaml

from capvco.release.build import write
from kubelocal import LocalCluster, Options, Provider
from kubelocal.api import Refused
from kubelocal.catalogue import KUBERNETES_VERSION
from tests.guest.image import FOLDER, KEY
from tests.support.guests import programs
from tests.support.guests.qemu import HOST
from tests.support.scenario import CAPI, LOCATION, Object, Scenario, a_machine, a_vco_machine
from tests.support.simulator import running_simulator

CLUSTER = "demo"
MODEL = "NVIDIA A100"
_VERSION = "v0.1.0"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
_JOIN_SECONDS = {
    "controlPlaneComponentHealthCheckSeconds": 1200,
    "discoverySeconds": 900,
    "kubeletHealthCheckSeconds": 900,
    "kubernetesAPICallSeconds": 300,
    "tlsBootstrapSeconds": 900,
}
"""A guest without KVM is slow."""
_FILES = {
    "/etc/apt/sources.list": f"deb [signed-by={FOLDER}/{KEY}] file:{FOLDER}/archive /\n",
    "/etc/capvco/gpu.d/mirror.env": (
        f"CAPVCO_TOOLKIT_KEY={FOLDER}/{KEY}\nCAPVCO_TOOLKIT_PACKAGES=file:{FOLDER}/toolkit\n"
        "CAPVCO_GPU_TIMEOUT=2400\nCAPVCO_GPU_RETRY_PAUSE=2\n"
    ),
    "/etc/capvco/kubernetes.d/mirror.env": (
        f"CAPVCO_KUBERNETES_KEY={FOLDER}/{KEY}\nCAPVCO_KUBERNETES_PACKAGES=file:{FOLDER}/kubernetes\n"
        "CAPVCO_KUBERNETES_TIMEOUT=2400\n"
    ),
}
"""What a site without egress writes, as its guide says."""


class Workers(Scenario):
    """The cluster and the cloud, with a manager at work."""

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator["Workers"]:
        """Run all of it; the cluster's control plane is ready for workers to join."""
        for name in ("cloud", "manager"):
            (folder / name).mkdir(parents=True)
        write(folder / "dist", _VERSION)
        provider = Provider("vco", "InfrastructureProvider", _VERSION, folder / "dist")
        options = Options(folder / "cluster", nodes=True, hosts=(HOST,))
        with LocalCluster(options) as cluster, running_simulator(folder / "cloud") as simulator:
            cluster.init([provider])
            let_nodes_join(cluster, folder)
            with cls.open(cluster, simulator, folder / "manager") as workers:
                assert isinstance(workers, cls)
                workers.start_manager()
                workers._begin()
                yield workers

    def _begin(self) -> None:
        """Make the cluster, and tell Cluster API that its control plane is the one there is."""
        pki = self.cluster.directory / "pki"
        authority = {"tls.crt": self.cluster.ca_pem, "tls.key": (pki / "ca.key").read_text()}
        self.apply(
            _secret("ca", authority),
            _secret("kubeconfig", {"value": self.cluster.kubeconfig.read_text()}),
        )
        self.put_cluster(CLUSTER, controlPlaneEndpoint={"host": HOST, "port": port(self.cluster)})
        self.until("the infrastructure", lambda: self._initial("infrastructureProvisioned"))
        self.until("the control plane", self._initialized)

    def _initial(self, what: str) -> bool:
        found = self.get("clusters", CLUSTER) or {}
        return bool(found.get("status", {}).get("initialization", {}).get(what))

    def _initialized(self) -> bool:
        """Say that the control plane is up, which no object does; whether it has been heard."""
        found = (self.get("clusters", CLUSTER) or {})["status"].get("conditions", [])
        if ("ControlPlaneInitialized", "True") in {(c["type"], c["status"]) for c in found}:
            return True
        said = {
            "type": "ControlPlaneInitialized",
            "status": "True",
            "reason": "Initialized",
            "message": "",
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        others = [c for c in found if c["type"] != said["type"]]
        initial = {"controlPlaneInitialized": True}
        patch = json.dumps({"status": {"initialization": initial, "conditions": [*others, said]}})
        where = ("patch", f"clusters.{CAPI}", CLUSTER, "--subresource=status", "--type=merge")
        self.kubectl(*where, "-p", patch)
        return False

    def make(self, name: str, **spec: object) -> str:
        """Make a worker of this VCOMachine spec; return what its guest reads as user data."""
        config: Object = {
            "apiVersion": f"{_BOOTSTRAP}/v1beta2",
            "kind": "KubeadmConfig",
            "metadata": {"name": name, "labels": {f"{CAPI}/cluster-name": CLUSTER}},
            "spec": {
                "files": [{"path": path, "content": text} for path, text in _FILES.items()],
                "joinConfiguration": {
                    "nodeRegistration": {"name": "{{ ds.meta_data.local_hostname }}"},
                    "timeouts": _JOIN_SECONDS,
                },
            },
        }
        reference = {"apiGroup": _BOOTSTRAP, "kind": "KubeadmConfig", "name": name}
        self.apply(
            config,
            a_vco_machine(name, CLUSTER, **spec),
            a_machine(name, CLUSTER, bootstrap={"configRef": reference}),
        )
        self.until(f"the VM of {name}", lambda: self.running(name), seconds=120)
        vm_id = self.vco_machine(name)["status"]["vmID"]
        return self.simulator.control.userdata(LOCATION, vm_id).text

    def node(self, name: str) -> Object | None:
        """Return the Node that a guest has registered, None if there is none."""
        try:
            return self.cluster.read(f"/api/v1/nodes/{name}")
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def agent_has(self, name: str, path: str, content: bytes) -> None:
        """Let the simulated VM's agent have a file of the real guest."""
        simulator, status = self.simulator, self.vco_machine(name)["status"]
        where = f"cloudspaces/{status['cloudspaceID']}/vms/{status['vmID']}"
        done = httpx2.post(
            f"{simulator.url}/customers/{simulator.customer_id}/{where}/file",
            headers=simulator.headers,
            json={
                "filepath": path,
                "content": base64.b64encode(content).decode(),
                "append": False,
            },
            trust_env=False,
        )
        assert done.status_code == 200, done.text


def with_driver(branch: str) -> Object:
    """Return what a VCOMachine says of one GPU with a driver."""
    return {"gpu": {"type": MODEL, "count": 1, "driverVersion": branch}}


def port(cluster: LocalCluster) -> int:
    """Return where the API server listens."""
    return int(cluster.url.rpartition(":")[2])


def let_nodes_join(cluster: LocalCluster, folder: Path) -> None:
    """Do what ``kubeadm init`` does once an API server runs: what joining nodes read, their rights.

    The address is that at which guests reach the API server, not that of this machine.
    """
    address = f"{HOST}:{port(cluster)}"
    config = folder / "kubeadm.yaml"
    config.write_text(yaml.safe_dump_all(_kubeadm(address)))
    kubeadm = programs.get()["kubeadm"]
    for phase in ("upload-config kubeadm", "upload-config kubelet", "bootstrap-token"):
        where = ("--config", str(config), "--kubeconfig", str(cluster.kubeconfig))
        command = [str(kubeadm), "init", "phase", *phase.split(), *where]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    info = cluster.read("/api/v1/namespaces/kube-public/configmaps/cluster-info")
    said = info["data"]["kubeconfig"].replace(cluster.url, f"https://{address}")
    patch = json.dumps({"data": {"kubeconfig": said}})
    cluster.kubectl("-n", "kube-public", "patch", "configmap", "cluster-info", "-p", patch)


def _kubeadm(address: str) -> list[Object]:
    host, _, number = address.partition(":")
    api = "kubeadm.k8s.io/v1beta4"
    return [
        {
            "apiVersion": api,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": host, "bindPort": int(number)},
            "nodeRegistration": {
                "name": "none",
                "criSocket": "unix:///run/containerd/containerd.sock",
            },
        },
        {
            "apiVersion": api,
            "kind": "ClusterConfiguration",
            "kubernetesVersion": KUBERNETES_VERSION,
            "controlPlaneEndpoint": address,
            "networking": {"serviceSubnet": "10.96.0.0/16", "podSubnet": "10.244.0.0/16"},
        },
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"},
    ]


def _secret(name: str, data: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": f"{CAPI}/secret",
        "metadata": {"name": f"{CLUSTER}-{name}", "labels": {f"{CAPI}/cluster-name": CLUSTER}},
        "stringData": data,
    }
