"""Stand-ins for tools and for Go, and a look at what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kubelocal.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; fail when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def running(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def printing(path: Path, text: str) -> Path:
    """Write a tool that only says its version."""
    return script(path, f"echo '{text}'")


def fake_go(folder: Path, build: str, version: str = "go1.26.8") -> dict[str, str]:
    """Write a `go` whose build does as told ($target is its output); give the environment for it.

    Each build notes itself in builds.log beside it.
    """
    script(
        folder / "go",
        f"""
case "$1" in
env) echo {version} ;;
list) echo example.org/one; echo example.org/two ;;
build)
  while [ "$1" != "-o" ]; do shift; done
  target="$2"
  echo "$3" >> {folder}/builds.log
  {build}
  ;;
esac""",
    )
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}


def python(code: str, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a Python process that knows this project's packages."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Heard(Progress):
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.parts: list[tuple[str, float]] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def advance(self, name: str, part: float) -> None:
        self.parts.append((name, part))
