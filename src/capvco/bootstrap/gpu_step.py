"""The GPU step in user data: scripts, their settings, and one command before kubeadm's.

cloud-init runs all commands of ``runcmd`` as one script, so the step is a file of its own, called
as a list, that nothing of it can leak into kubeadm's line.
"""

import base64
import gzip
import shlex
from functools import cache
from importlib.resources import files

from msgspec import Struct

from capvco.bootstrap.document import Document, UserDataError

FOLDER = "/opt/capvco/gpu"
SETTINGS = "/etc/capvco/gpu.env"
_ENTRY = "boot.sh"
_KUBEADM = ("kubeadm init", "kubeadm join")


class Driver(Struct, frozen=True):
    """The driver that a machine's GPUs need."""

    version: str
    """A branch, such as 570, or with the open kernel modules, 580-open."""
    count: int
    """How many cards must be usable."""


def with_gpu_step(document: Document, driver: Driver) -> Document:
    """Install the driver before kubeadm runs. Raises UserDataError."""
    files_ = [*_list(document, "write_files"), *_scripts(), _settings(driver)]
    commands = _list(document, "runcmd")
    at = next((i for i, command in enumerate(commands) if _is_kubeadm(command)), 0)
    step = ["/bin/bash", f"{FOLDER}/{_ENTRY}"]
    commands = [*commands[:at], step, *commands[at:]]
    return {**document, "write_files": files_, "runcmd": commands}


def _list(document: Document, key: str) -> list[object]:
    found = document.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise UserDataError(f"{key} of the bootstrap data is not a list")
    return found


def _is_kubeadm(command: object) -> bool:
    """Find kubeadm's own line: the user's commands before it may prepare what we need."""
    text = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    return any(call in " ".join(text.split()) for call in _KUBEADM)


@cache
def _scripts() -> tuple[Document, ...]:
    """Return the scripts, packed: base64 passes every layer between here and the node unchanged."""
    folder = files(__package__) / "scripts"
    found = sorted(
        (entry.name, entry.read_bytes())
        for entry in folder.iterdir()
        if entry.name.endswith((".sh", ".awk"))
    )
    return tuple(
        {
            "path": f"{FOLDER}/{name}",
            "owner": "root:root",
            "permissions": "0755",
            "encoding": "gzip+base64",
            "content": base64.b64encode(gzip.compress(content, mtime=0)).decode(),
        }
        for name, content in found
    )


def _settings(driver: Driver) -> Document:
    return {
        "path": SETTINGS,
        "owner": "root:root",
        "permissions": "0644",
        "content": (
            "# Written by CAPVCO. Your own settings go into /etc/capvco/gpu.d/*.env.\n"
            f"CAPVCO_GPU_DRIVER={shlex.quote(driver.version)}\n"
            f"CAPVCO_GPU_COUNT={driver.count}\n"
        ),
    }
