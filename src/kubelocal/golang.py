"""The Go toolchain: find it, ask its version, build one tool with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from kubelocal.catalogue import MINIMUM_GO, MODULES
from kubelocal.errors import BuildFailed, NeedsGo
from kubelocal.tie import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kubelocal.catalogue import Tool

BUILD_FLAGS: Final = ("-trimpath",)
_USUAL_ROOT: Final = "/usr/local/go"
_OWN_SETTINGS: Final = {
    "CGO_ENABLED": "0",  # static: runs on any Linux, scratch images included
    "GOFLAGS": "-mod=readonly",  # go.mod and go.sum decide, nothing else
    "GOWORK": "off",
    "GO111MODULE": "on",
}


@dataclass(frozen=True)
class Go:
    """A Go toolchain that is new enough for the modules."""

    path: Path
    version: str
    """As `go env GOVERSION` says, such as go1.26.8."""
    env: Mapping[str, str]


def find(env: Mapping[str, str], cache: Path) -> Go:
    """Find Go on PATH, else below GOROOT; raises NeedsGo where it is missing or too old."""
    wanted = ".".join(map(str, MINIMUM_GO))
    usual = str(Path(env.get("GOROOT") or _USUAL_ROOT) / "bin")
    found = shutil.which("go", path=env.get("PATH", "")) or shutil.which("go", path=usual)
    if found is None:
        raise NeedsGo(
            f"Go is not installed: neither PATH nor {usual} has `go`, and {wanted} or "
            "newer is needed to build what cannot be downloaded. Install it from https://go.dev/dl "
            "and start again"
        )
    settings = build_env(env, cache)
    # Asked inside a module, so that a toolchain switch (GOTOOLCHAIN=auto) has its say.
    asked = subprocess.run(
        [found, "env", "GOVERSION"],
        cwd=MODULES / "etcd",
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    version = asked.stdout.strip()
    if asked.returncode != 0 or _numbers(version) < MINIMUM_GO:
        said = asked.stderr.strip() or f"it is {version or 'of no known version'}"
        raise NeedsGo(
            f"{found} cannot be used, {wanted} or newer is needed: {said}. Install a newer Go from "
            "https://go.dev/dl, put it first on PATH and start again"
        )
    return Go(Path(found), version, settings)


def build_env(env: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Give the environment Go runs in: the user's proxy and caches, our build settings."""
    ignored = {"GOOS", "GOARCH", "GOBIN"}  # this machine is what is built for
    settings = {key: value for key, value in env.items() if key not in ignored} | _OWN_SETTINGS
    if env.get("HOME"):
        # Go keeps counters of its use beside its settings: the latter are the user's, but the
        # former are not worth a new folder in somebody's home.
        config = Path(env.get("XDG_CONFIG_HOME") or Path(env["HOME"]) / ".config")
        settings.setdefault("GOENV", str(config / "go" / "env"))
        settings["XDG_CONFIG_HOME"] = str(cache / "go-config")
    else:
        settings.setdefault("GOPATH", str(cache / "go"))
        settings.setdefault("GOCACHE", str(cache / "go-build"))
    return settings


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def build(go: Go, tool: Tool, target: Path, advance: Callable[[float], None]) -> None:
    """Build the tool into `target`; raises BuildFailed with what Go said.

    Whatever ends this call early ends the compilers too.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        # A Go that is killed leaves its work folder: so that lies where what we leave is removed.
        _build(replace(go, env=dict(go.env) | {"GOTMPDIR": scratch}), tool, target, advance)


def _build(go: Go, tool: Tool, target: Path, advance: Callable[[float], None]) -> None:
    module = MODULES / tool.module
    stale = _stale_packages(go, tool, module)
    command = ["build", "-v", *_flags(tool), "-o", str(target), tool.package]
    said: deque[str] = deque(maxlen=40)
    compiled = 0
    with _running(go, command, module) as output:
        for line in output:
            if line.strip() in stale:
                compiled += 1
                advance(0.9 * compiled / len(stale))  # the rest is linking
            elif not line.startswith("go: downloading"):
                said.append(line)
    if output.code != 0:
        raise BuildFailed(
            f"`go build {tool.package}` failed in {module} (exit code {output.code}):\n"
            f"{''.join(said).strip()}"
        )


def _flags(tool: Tool) -> tuple[str, ...]:
    return (*BUILD_FLAGS, "-ldflags", tool.ldflags)


def _stale_packages(go: Go, tool: Tool, module: Path) -> frozenset[str]:
    form = "{{if .Stale}}{{.ImportPath}}{{end}}"
    lines: list[str] = []
    with _running(go, ["list", "-deps", *_flags(tool), "-f", form, tool.package], module) as output:
        lines.extend(output)
    if output.code != 0:
        raise BuildFailed(
            f"`go list -deps {tool.package}` failed in {module} (exit code {output.code}):\n"
            f"{''.join(lines[-40:]).strip()}\n"
            "Go modules come through GOPROXY (`go env GOPROXY`): see that it can be reached"
        )
    return frozenset(line.strip() for line in lines)


class _running:  # noqa: N801 - used like a function, as contextlib's own
    """A Go command as a group of processes; leaving the block ends all of them."""

    def __init__(self, go: Go, command: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            launched([str(go.path), *command], watch=True),
            cwd=folder,
            env=dict(go.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.code = -1

    def __enter__(self) -> Self:
        return self

    def __iter__(self) -> Iterator[str]:
        yield from _piped(self._process)

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.code = self._process.wait()
        _piped(self._process).close()


def _piped(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    return process.stdout


def module_folder(go: Go, module: str, path: str, version: str) -> Path:
    """Give the folder where Go keeps this module, downloaded and verified against `go.sum`."""
    lines: list[str] = []
    command = ["mod", "download", "-json", f"{path}@{version}"]
    with _running(go, command, MODULES / module) as output:
        lines.extend(output)
    text = "".join(lines)
    try:
        answer = json.loads(text[text.index("{") :])
    except ValueError:
        answer = {"Error": text.strip()}
    if output.code != 0 or "Dir" not in answer:
        raise BuildFailed(
            f"the module {path} {version} could not be had: {answer.get('Error', text)}. "
            "Go modules come through GOPROXY (`go env GOPROXY`): see that it can be reached"
        )
    return Path(answer["Dir"])
