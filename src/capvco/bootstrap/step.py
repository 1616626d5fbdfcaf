"""A step of ours at first boot: scripts, their settings, and one command before kubeadm's.

cloud-init runs all commands of ``runcmd`` as one script, so a step is a file of its own, called as
a list, that nothing of it can leak into kubeadm's line.
"""

import base64
import gzip
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

from capvco.bootstrap.commands import is_kubeadm
from capvco.bootstrap.document import Document, as_list

ROOT = "/opt/capvco"
SETTINGS = "/etc/capvco"


class Step(Struct, frozen=True, kw_only=True):
    """What is done on the node, before kubeadm runs."""

    name: str
    """Names its folder and its settings."""
    scripts: tuple[str, ...]
    entry: tuple[str, ...]
    """The script that is called, and its arguments."""
    settings: Mapping[str, str]

    @property
    def folder(self) -> str:
        """Return where its scripts are."""
        return f"{ROOT}/{self.name}"

    @property
    def command(self) -> list[str]:
        """Return its entry of runcmd."""
        return ["/bin/bash", f"{self.folder}/{self.entry[0]}", *self.entry[1:]]


def with_step(document: Document, step: Step) -> Document:
    """Put a step right before kubeadm's line, else before all commands. Raises UserDataError."""
    files_ = [
        *as_list(document, "write_files"),
        *(_script(step.folder, name) for name in step.scripts),
        _settings(step),
    ]
    commands = as_list(document, "runcmd")
    at = next((i for i, command in enumerate(commands) if is_kubeadm(command)), 0)
    commands = [*commands[:at], step.command, *commands[at:]]
    return {**document, "write_files": files_, "runcmd": commands}


def _script(folder: str, name: str) -> Document:
    return {
        "path": f"{folder}/{name}",
        "owner": "root:root",
        "permissions": "0755",
        "encoding": "gzip+base64",
        "content": _packed(name),
    }


@cache
def _packed(name: str) -> str:
    """Return a script, packed: base64 passes every layer between here and the node unchanged."""
    content = (files(__package__) / "scripts" / name).read_bytes()
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _settings(step: Step) -> Document:
    lines = (f"{name}={shlex.quote(value)}\n" for name, value in step.settings.items())
    return {
        "path": f"{SETTINGS}/{step.name}.env",
        "owner": "root:root",
        "permissions": "0644",
        "content": (
            f"# Written by CAPVCO. Your own settings go into {SETTINGS}/{step.name}.d/*.env.\n"
            f"{''.join(lines)}"
        ),
    }
