"""The real programs that the tests of the node run: containerd and nvidia-ctk, of several versions.

What was built or unpacked once is kept in ``~/.cache/capvco-node``, keyed by version.
``python -m tests.node.binaries`` fetches all of them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

CONTAINERD = "github.com/containerd/containerd/v2"
TOOLKIT = "github.com/NVIDIA/nvidia-container-toolkit"


class Unavailable(Exception):  # noqa: N818 - an outcome, told by a skip
    """A program cannot be had here; the message says why."""


class Program(Struct, frozen=True):
    """One program of one version."""

    name: str
    version: str
    fetch: Callable[["Program", Path], None]
    module: str = ""

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"

    def path(self) -> Path:
        """Return the program, fetched if it was not yet. Raises Unavailable."""
        target = cache() / self.key / self.name
        if target.exists():
            return target
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as scratch:
            self.fetch(self, Path(scratch))
            target.parent.mkdir(exist_ok=True)
            (Path(scratch) / self.name).rename(target)
        return target


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "capvco-node"


def _run(*command: str, cwd: Path | None = None, cgo: str = "0") -> str:
    program = shutil.which(command[0])
    if program is None and command[0] == "go":
        program = shutil.which("/usr/local/go/bin/go")
    if program is None:
        raise Unavailable(f"{command[0]} is not installed")
    env = {**os.environ, "CGO_ENABLED": cgo, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    done = subprocess.run(
        [program, *command[1:]], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed: {done.stderr.strip()[-600:]}")
    return done.stdout


def _from_go(program: Program, scratch: Path) -> None:
    """Build in the module's own folder, so that its own go.sum decides."""
    asked = _run("go", "mod", "download", "-json", f"{program.module}@v{program.version}")
    folder = Path(json.loads(asked)["Dir"])
    target = scratch / program.name
    # nvidia-ctk loads the driver's libraries, which only a cgo build can.
    cgo = "1" if program.module == TOOLKIT else "0"
    build = ("build", "-p", "1", "-trimpath", "-buildvcs=false", "-o", str(target))
    _run("nice", "go", *build, f"./cmd/{program.name}", cwd=folder, cgo=cgo)


def _unpacked(scratch: Path, *packages: str) -> Path:
    _run("apt-get", "download", *packages, cwd=scratch)
    for package in scratch.glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(scratch / "root"))
    return scratch / "root"


def _from_debian(program: Program, scratch: Path) -> None:
    (_unpacked(scratch, program.name) / "usr/bin" / program.name).rename(scratch / program.name)


def _with_libraries(program: Program, scratch: Path) -> None:
    packages = (program.name, *(f"python3-{name}" for name in _LIBRARIES))
    _unpacked(scratch, *packages).rename(scratch / program.name)


_LIBRARIES = (
    *("attr", "certifi", "chardet", "charset-normalizer", "configobj", "idna", "jinja2"),
    *("json-pointer", "jsonpatch", "jsonschema", "markupsafe", "oauthlib", "pyrsistent"),
    *("requests", "serial", "six", "urllib3", "yaml"),
)
"""What cloud-init imports."""
DEBIAN_CONTAINERD = Program("containerd", "debian", _from_debian)
CONTAINERDS = (
    DEBIAN_CONTAINERD,
    *(Program("containerd", v, _from_go, CONTAINERD) for v in ("2.0.14", "2.4.2")),
)
CLOUD_INIT = Program("cloud-init", "debian", _with_libraries)
"""Its path is a folder: the package, and the libraries that it imports."""
TOOLKITS = tuple(Program("nvidia-ctk", v, _from_go, TOOLKIT) for v in ("1.17.8", "1.20.2"))


if __name__ == "__main__":
    for each in (*CONTAINERDS, *TOOLKITS, CLOUD_INIT):
        try:
            sys.stdout.write(f"{each.path()}\n")
        except Unavailable as error:
            sys.stdout.write(f"{each.key}: {error}\n")
