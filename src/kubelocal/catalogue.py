"""Which tools there are, at which version, and what builds them.

The version of a tool is the one its module's `go.mod` requires; a unit test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ETCD_VERSION: Final = "v3.6.16"
KUBERNETES_VERSION: Final = "v1.36.3"
CLUSTER_API_VERSION: Final = "v1.14.2"
CERT_MANAGER_VERSION: Final = "v1.19.1"

MODULES: Final = Path(__file__).parent / "modules"
"""The Go modules that ship with this package: `go.mod` and `go.sum`, one folder each."""

MINIMUM_GO: Final = (1, 26)
"""What the `go` line of every module asks for."""


@dataclass(frozen=True)
class Tool:
    """One executable: where it comes from and how its version is recognised."""

    name: str
    version: str
    module: str
    """Folder below `MODULES`."""
    package: str
    """Go package of its `main`."""
    stamp: str = ""
    """Go package whose gitVersion, gitMajor and gitMinor are set at link time; "" for none."""
    version_command: tuple[str, ...] = ()
    """Arguments that make it print its version; empty: never taken from elsewhere."""
    build_seconds: float = 60.0
    """Nominal time of a build on two cores, in the catalogue's order, for "time left"."""

    @property
    def ldflags(self) -> str:
        """Linker flags: no debug tables, and the version stamp."""
        if not self.stamp:
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        stamps = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {self.stamp}.{k}={v}" for k, v in stamps.items())])

    @property
    def minor(self) -> str:
        """`vX.Y.`: what a version found elsewhere must begin with to be fit."""
        return self.version.rpartition(".")[0] + "."


_KUBERNETES_STAMP: Final = "k8s.io/component-base/version"
_CLUSTER_API_STAMP: Final = "sigs.k8s.io/cluster-api/version"


def _kubernetes(name: str, seconds: float, *version_command: str) -> Tool:
    return Tool(
        name,
        KUBERNETES_VERSION,
        "kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        _KUBERNETES_STAMP,
        version_command,
        seconds,
    )


def _cluster_api(name: str, package: str, seconds: float, *version_command: str) -> Tool:
    return Tool(
        name,
        CLUSTER_API_VERSION,
        "cluster-api",
        f"sigs.k8s.io/cluster-api/{package}",
        _CLUSTER_API_STAMP,
        version_command,
        seconds,
    )


ETCD: Final = Tool(
    "etcd", ETCD_VERSION, "etcd", "go.etcd.io/etcd/server/v3", "", ("--version",), 42.0
)
APISERVER: Final = _kubernetes("kube-apiserver", 195.0, "--version")
CONTROLLER_MANAGER: Final = _kubernetes("kube-controller-manager", 60.0, "--version")
KUBECTL: Final = _kubernetes("kubectl", 25.0, "version", "--client")
CORE_MANAGER: Final = _cluster_api("capi-core-manager", "core", 100.0)
BOOTSTRAP_MANAGER: Final = _cluster_api("capi-kubeadm-bootstrap-manager", "bootstrap/kubeadm", 10.0)
CONTROL_PLANE_MANAGER: Final = _cluster_api(
    "capi-kubeadm-control-plane-manager", "controlplane/kubeadm", 10.0
)
CLUSTERCTL: Final = _cluster_api("clusterctl", "cmd/clusterctl", 14.0, "version", "-o", "short")

CONTROL_PLANE_TOOLS: Final = (ETCD, APISERVER, CONTROLLER_MANAGER, KUBECTL)
CLUSTER_API_TOOLS: Final = (CORE_MANAGER, BOOTSTRAP_MANAGER, CONTROL_PLANE_MANAGER, CLUSTERCTL)
ALL_TOOLS: Final = CONTROL_PLANE_TOOLS + CLUSTER_API_TOOLS
"""In the order that makes the later builds cheap."""
