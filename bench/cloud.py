"""The simulated cloud of the benchmark: cards enough, and each change takes a moment."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from vcosim import stock
from vcosim.control import Control
from vcosim.server import Address

if TYPE_CHECKING:
    from pathlib import Path

    from kubelocal import LocalCluster

LOCATION = stock.BE
EXTERNAL_NETWORK = 11
IMAGE = 203
GPU_TYPE = "NVIDIA A100"
_SECONDS = (
    "reserve", "attach", "detach", "vgpu_delete", "deploy", "start", "stop", "delete", "cloudspace",
)  # fmt: skip
_BUSES = 256


def switches(seconds: float) -> dict[str, str]:
    """Return the switches that make every changing call take that long."""
    return {f"{name}_seconds": str(seconds) for name in _SECONDS}


def world(vgpus: int, per_card: int) -> dict[str, object]:
    """Return a world with one location and room for that many vGPUs, and some to spare."""
    cards = -(-vgpus // per_card) + 4
    return {
        "locations": [
            {
                "name": LOCATION,
                "city": "Mechelen",
                "images": [{"image_id": IMAGE, "name": "Kubernetes GPU base", "boot_type": "bios"}],
                "external_networks": [
                    {
                        "external_network_id": EXTERNAL_NETWORK,
                        "name": "public",
                        "network": "203.0.113.0/24",
                        "gateway": "203.0.113.1",
                    }
                ],
                "cards": [_card(number, per_card) for number in range(cards)],
            }
        ],
        "customers": [{"customer_id": stock.CUSTOMER, "locations": [LOCATION]}],
        "clients": [{"client_id": stock.CLIENT, "customers": [stock.CUSTOMER]}],
    }


def _card(number: int, capacity: int) -> dict[str, object]:
    domain, bus = divmod(number, _BUSES)
    model = f"A100-SXM4-80GB {domain:04x}:{bus:02x}:00.0"
    return {"vendor": "NVIDIA", "model": model, "capacity": capacity}


class Cloud:
    """A running simulator, and a look behind it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.control = Control(address.control_url)

    @classmethod
    def start(cls, cluster: LocalCluster, given: dict[str, object], pace: dict[str, str]) -> Cloud:
        """Start it as one of the cluster's processes; all it knows is in memory."""
        file = cluster.directory / "world.json"
        file.write_text(json.dumps(given))
        log = cluster.directory / "logs" / "vcosim.log"
        command = [sys.executable, "-m", "vcosim", "--world", str(file)]
        for name, value in pace.items():
            command += ["--set", f"{name}={value}"]
        cluster.run("vcosim", command, ready=lambda: _said(log) is not None)
        address = _said(log)
        if address is None:
            raise RuntimeError(f"the simulator did not say where it is: see {log}")
        return cls(address)

    def credentials(self) -> dict[str, str]:
        """Return the data of a credentials Secret."""
        return {
            "apiURL": self.address.url,
            "iamURL": self.address.iam_url,
            "customerID": self.address.customer_id,
            "clientID": self.address.client_id,
            "clientSecret": self.address.client_secret,
        }


def _said(log: Path) -> Address | None:
    """Read the simulator's first line, once it is whole."""
    text = log.read_text() if log.exists() else ""
    lines = (line for line in text.splitlines(keepends=True) if line.startswith("{"))
    first = next(lines, "")
    return Address(**json.loads(first)) if first.endswith("\n") else None
