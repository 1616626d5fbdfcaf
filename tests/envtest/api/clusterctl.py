"""The real clusterctl, run as a user does: with variables in the environment."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping

from kubelocal import LocalCluster
from kubelocal.binaries import Binaries
from kubelocal.catalogue import CLUSTERCTL
from kubelocal.store import Store, default_root

SEED = {
    "CLUSTER_NAME": "gpu-demo",
    "KUBERNETES_VERSION": "v1.35.8",
    "VCO_LOCATION": "be-g8-4",
    "VCO_IMAGE_ID": "12",
    "VCO_EXTNET_ID": "5",
    "VCO_GPU_TYPE": "NVIDIA A100",
    "VCO_GPU_COUNT": "1",
    "VCO_GPU_DRIVER_VERSION": "550",
}
"""Exactly what the guide sets."""


def eventually(look: Callable[[], bool], what: str, seconds: float = 40) -> None:
    """Poll until it is so, or fail."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def clusterctl(cluster: LocalCluster, variables: Mapping[str, str], *arguments: str) -> str:
    """Run clusterctl against a cluster that was initialised; return its output."""
    binary = Binaries(Store(default_root(os.environ)), os.environ).get([CLUSTERCTL])["clusterctl"]
    (config,) = cluster.directory.glob("clusterctl/*.yaml")
    environment = {
        "HOME": str(cluster.directory),
        "XDG_CONFIG_HOME": str(cluster.directory / "config"),
        "KUBECONFIG": str(cluster.kubeconfig),
        "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
        **variables,
    }
    done = subprocess.run(
        [binary, *arguments, "--config", config],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def gpu_demo(cluster: LocalCluster, namespace: str, **variables: str) -> str:
    """Render the GPU flavor with the guide's command line."""
    return clusterctl(
        cluster,
        SEED | variables,
        *("generate", "cluster", "gpu-demo", "--flavor", "gpu", "--worker-machine-count", "1"),
        *("--target-namespace", namespace),
    )
