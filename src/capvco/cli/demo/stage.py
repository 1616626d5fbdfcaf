"""Everything that must run before the demo's user comes: control plane, cloud, manager."""

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from capvco.release.build import write
from kubelocal import LocalCluster, Provider

VERSION = "v0.1.0"
_NAMESPACE, _ACCOUNT = "capvco-system", "capvco-manager"
# The demo's cloud is on this machine: its pace need not be the real one's.
_PACE = ("--poll-interval=1s", "--capacity-interval=3s", "--settle-time=15s", "--sync-period=30s")
_RATE = ("--vco-rate=50", "--vco-burst=100")


def install(cluster: LocalCluster) -> None:
    """Build the release assets and install them by the real clusterctl."""
    assets = cluster.directory / "assets"
    shutil.rmtree(assets, ignore_errors=True)
    write(assets, VERSION)
    cluster.init([Provider("vco", "InfrastructureProvider", VERSION, assets)])


def start_cloud(cluster: LocalCluster) -> dict[str, Any]:
    """Start the simulator as a process; return what it says of itself: addresses, credentials."""
    state = cluster.directory / "cloud"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    log = cluster.directory / "logs" / "vcosim.log"
    database = str(state / "cloud.sqlite")
    cluster.run(
        "vcosim",
        (sys.executable, "-m", "vcosim", "--db", database),
        ready=lambda: _first_line(log) is not None,
    )
    said = _first_line(log)
    if said is None:
        raise RuntimeError(f"the simulator said nothing: see {log}")
    return said


def _first_line(log: Path) -> dict[str, Any] | None:
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                return None
            return found
    return None


def start_manager(cluster: LocalCluster) -> None:
    """Start the manager as a process, with its ServiceAccount's rights and no others."""
    path = cluster.directory / "kubeconfigs" / "manager"
    kubeconfig = cluster.service_account_kubeconfig(_NAMESPACE, _ACCOUNT, path)
    health = f"127.0.0.1:{_free_port()}"
    command = (
        sys.executable,
        "-m",
        "capvco",
        f"--kubeconfig={kubeconfig}",
        f"--health-addr={health}",
        "--diagnostics-address=0",
        "--leader-elect",
        f"--leader-election-namespace={_NAMESPACE}",
        *_PACE,
        *_RATE,
    )
    cluster.run("capvco", command, ready=_answers(f"http://{health}/readyz"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> Callable[[], bool]:
    def ready() -> bool:
        try:
            return httpx2.get(url, timeout=2).status_code == httpx2.codes.OK
        except httpx2.HTTPError:
            return False

    return ready
