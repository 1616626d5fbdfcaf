"""Runs the image builder as a user does."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

BUILDER = Path(__file__).parents[2] / "image-builder" / "build-gpu-base-image.sh"


class Run(Struct, frozen=True):
    """How it ended."""

    code: int
    out: str
    said: str
    """What it said to a person."""


class Builder(Struct, frozen=True):
    """The builder, on this machine."""

    env: Mapping[str, str]
    scratch: Path

    def environment(self) -> dict[str, str]:
        # One appliance in the cache of all tests, the rest where each can see what is left.
        own = {"TMPDIR": str(self.scratch), "LIBGUESTFS_CACHEDIR": "/var/tmp"}
        return {**os.environ, **self.env, **own}

    def run(self, *options: str) -> Run:
        done = subprocess.run(
            ["bash", str(BUILDER), *options],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start it, with a pipe for what it says."""
        return subprocess.Popen(
            ["bash", str(BUILDER), *options],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
