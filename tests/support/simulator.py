"""A running simulator for tests: over real HTTP, in a thread or as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from capvco.vco.credentials import Credentials
from vcosim.clock import Mode
from vcosim.control import Control
from vcosim.server import Address, InThread, Options

QUICK = {
    "attach_seconds": 0.02,
    "detach_seconds": 0.02,
    "vgpu_delete_seconds": 0.02,
    "deploy_seconds": 0.03,
    "start_seconds": 0.02,
    "stop_seconds": 0.02,
    "delete_seconds": 0.02,
    "restore_seconds": 0.02,
    "cloudspace_seconds": 0.02,
    "image_seconds": 0.02,
    "agent_seconds": 0.02,
}


@dataclass
class Simulator:
    """Where the simulator is, how to get in, and its control port."""

    url: str
    """The API with its base path, ``http://…/api/1``."""
    iam_url: str
    control_url: str
    token: str
    customer_id: str
    client_id: str
    client_secret: str
    control: Control
    process: subprocess.Popen[str] | None = None
    arguments: list[str] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        """Return the header a client needs."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def secret(self) -> dict[str, str]:
        """Return the data of a credentials Secret for it."""
        return {
            "apiURL": self.url,
            "iamURL": self.iam_url,
            "customerID": self.customer_id,
            "clientID": self.client_id,
            "clientSecret": self.client_secret,
        }

    def credentials(self, **changes: str) -> Credentials:
        """Return what the client makes of that Secret."""
        data = self.secret | changes
        return Credentials.from_secret({name: value.encode() for name, value in data.items()})

    def kill(self) -> None:
        """Kill the process (-9); only with ``as_process=True``."""
        if self.process is None:
            raise RuntimeError("this simulator runs in a thread; use as_process=True")
        self.process.kill()
        _ended(self.process)

    def restart(self) -> None:
        """Start the process again on the same ports and the same file."""
        self.process, _ = _spawned([*self.arguments, *_ports(self)])
        # The old process' connections are gone; the clients of this object need new ones.
        self.control.close()
        self.control = Control(self.control_url)


@contextmanager
def running_simulator(
    tmp_path: Path,
    *,
    as_process: bool = False,
    quick: bool = True,
    world: str = "stock",
    clock: Mode = "real",
    **switches: object,
) -> Iterator[Simulator]:
    """Run a simulator; keyword arguments are its switches.

    ``quick`` shortens all durations to some hundredths of a second. The breach list is not checked
    here: ``assert not simulator.control.breaches()`` is for the caller.
    """
    chosen = (QUICK if quick else {}) | switches
    database = tmp_path / "vcosim.sqlite"
    run = _process if as_process else _thread
    with run(database, world, clock, chosen) as simulator:
        yield simulator


@contextmanager
def _thread(
    database: Path, world: str, clock: Mode, switches: dict[str, object]
) -> Iterator[Simulator]:
    options = Options(db=str(database), world=world, clock=clock, switches=switches)
    thread = InThread(options)
    address = thread.start()
    try:
        with Control(address.control_url) as control:
            yield _simulator(address, control)
    finally:
        thread.stop()


@contextmanager
def _process(
    database: Path, world: str, clock: str, switches: dict[str, object]
) -> Iterator[Simulator]:
    arguments = ["--db", str(database), "--world", world, "--clock", clock]
    for name, value in switches.items():
        arguments += ["--set", f"{name}={value}"]
    process, address = _spawned(arguments)
    simulator = _simulator(address, Control(address.control_url))
    simulator.process, simulator.arguments = process, arguments
    try:
        yield simulator
    finally:
        simulator.control.close()
        _ended(simulator.process)


def _ended(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    process.wait(timeout=20)
    if process.stdout:
        process.stdout.close()


def _spawned(arguments: list[str]) -> tuple[subprocess.Popen[str], Address]:
    process = subprocess.Popen(
        [sys.executable, "-m", "vcosim", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError(f"vcosim {' '.join(arguments)} ended with {process.wait()}")
    return process, Address(**json.loads(line))


def _ports(simulator: Simulator) -> list[str]:
    urls = {
        "--port": simulator.url.removesuffix("/api/1"),
        "--iam-port": simulator.iam_url,
        "--control-port": simulator.control_url,
    }
    return [word for name, url in urls.items() for word in (name, url.rpartition(":")[2])]


def _simulator(address: Address, control: Control) -> Simulator:
    return Simulator(
        url=address.url,
        iam_url=address.iam_url,
        control_url=address.control_url,
        token=address.token,
        customer_id=address.customer_id,
        client_id=address.client_id,
        client_secret=address.client_secret,
        control=control,
    )
