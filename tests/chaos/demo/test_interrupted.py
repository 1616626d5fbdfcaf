"""The demo is interrupted at any moment: no process stays, and the next run works."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(1200)]
LONGEST = 40.0
"""Seconds: about the length of a demo."""


def _processes_in(directory: Path) -> list[str]:
    """Return the command lines of all processes that mention a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and str(directory) in text:
            found.append(text)
    return found


def _demo(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "capvco", "demo", "--directory", str(directory)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def test_ten_interruptions_then_a_whole_run(tmp_path: Path) -> None:
    """Ctrl-C at ten random moments of the demo; then it runs to its end."""
    moments = random.Random(11)
    directory = tmp_path / "demo"
    for _ in range(10):
        running = _demo(directory)
        deadline = time.monotonic() + moments.uniform(0.2, LONGEST)
        while running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) in {0, -signal.SIGINT, 128 + signal.SIGINT}
        assert _processes_in(directory) == []
    assert _demo(directory).wait(180) == 0
    assert _processes_in(directory) == []
