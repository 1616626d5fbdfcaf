"""The command: what it answers where nothing can be started, and its exit codes."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from kubelocal.cli import run
from kubelocal.errors import DirectoryInUse, NeedsGo, UsageError
from kubelocal.processes import Records, identify
from kubelocal.workspace import Workspace
from tests.unit.kubelocal.support import fake_go, python, running, until

if TYPE_CHECKING:
    from pathlib import Path


def test_help_names_the_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """For somebody who has only this."""
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for word in ("up", "down", "status", "fetch", "clean", "Exit codes"):
        assert word in shown


@pytest.mark.parametrize("words", [["bogus"], ["up", "--bogus"], ["fetch", "--source", "magic"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    """As shells and scripts expect."""
    assert run(words) == UsageError.exit_code == 2


def test_status_and_down_of_nothing_are_no_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And leave no trace."""
    assert run(["status", "--directory", str(tmp_path / "none")]) == 0
    assert "nothing runs" in capsys.readouterr().out
    assert run(["down", "--directory", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


def test_without_go_and_network_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and where to get Go."""
    env = fake_go(tmp_path / "go", "exit 1", "go1.18")
    monkeypatch.setenv("PATH", env["PATH"])
    arguments = ["fetch", "--source", "build", "--cache", str(tmp_path / "cache")]
    assert run(arguments) == NeedsGo.exit_code
    assert "https://go.dev/dl" in " ".join(capsys.readouterr().err.split())


def test_a_directory_in_use_ends_with_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` beside a living cluster touches nothing of it."""
    env = fake_go(tmp_path / "go", 'printf x > "$target"')
    monkeypatch.setenv("PATH", env["PATH"])
    space = Workspace(tmp_path / "state")
    space.acquire()
    words = ["up", "--no-capi", "--source", "build", "--cache", str(tmp_path / "cache")]
    assert run([*words, "--directory", str(space.directory)]) == DirectoryInUse.exit_code
    assert space.owner() == identify(os.getpid())
    space.release()


OWNER = """
import signal, sys, time
from pathlib import Path
from kubelocal.workspace import Workspace
space = Workspace(Path(sys.argv[1]))
space.acquire()
print("ready", flush=True)
time.sleep(300)
"""


def test_down_ends_the_owner_and_what_it_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The owner is asked first; whatever it recorded and left is ended after it."""
    state = tmp_path / "state"
    owner, left = python(OWNER, str(state)), python("import time; time.sleep(300)")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    identity = identify(left.pid)
    assert identity is not None
    Records(state / "processes").write("etcd", identity)
    assert run(["status", "--directory", str(state)]) == 0
    assert f"{owner.pid}" in capsys.readouterr().out
    assert run(["down", "--directory", str(state)]) == 0
    until(lambda: not running(owner.pid) and not running(left.pid))
    assert owner.wait() == -signal.SIGTERM
    owner.communicate()
    left.communicate()
    assert "ended: its owner, etcd" in capsys.readouterr().err


def test_clean_refuses_a_running_cluster_and_removes_a_stopped_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """State and cache both go, and only they."""
    space = Workspace(tmp_path / "state")
    space.acquire()
    words = ["clean", "--directory", str(space.directory), "--cache", str(tmp_path / "cache")]
    assert run(words) == UsageError.exit_code
    space.release()
    entry = tmp_path / "cache" / "entries" / "etcd-1"
    entry.mkdir(parents=True)
    (tmp_path / "other").touch()
    assert run(words) == 0
    assert not space.directory.exists()
    assert not entry.exists()
    assert (tmp_path / "other").exists()
    assert "removed the tools" in " ".join(capsys.readouterr().err.split())
