"""Processes are ended by those who own them, and nobody else's are."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kubelocal.errors import DirectoryInUse, StartFailed, UsageError
from kubelocal.processes import Records, end, identify, wait_gone
from kubelocal.supervisor import Supervisor, lost_port
from kubelocal.workspace import Workspace
from tests.unit.kubelocal.support import python, running, until

SLEEP = "/bin/sleep"
ENV = {"PATH": "/usr/bin:/bin"}


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([SLEEP, "300"], start_new_session=True)


def supervisor(tmp_path: Path, *, tie: bool = True) -> Supervisor:
    for name in ("processes", "logs"):
        (tmp_path / name).mkdir(exist_ok=True)
    return Supervisor(Records(tmp_path / "processes"), tmp_path / "logs", tie=tie)


def test_an_identity_survives_only_as_long_as_its_process() -> None:
    """A zombie is not alive, and neither is a later process with the same pid."""
    process = sleeper()
    identity = identify(process.pid)
    assert identity is not None
    assert identity.alive
    assert not dataclasses.replace(identity, start=identity.start - 1).alive
    assert not dataclasses.replace(identity, boot="another").alive
    process.kill()
    until(lambda: not identity.alive)
    assert identify(process.pid) is None  # not yet reaped: a zombie
    process.wait()


def test_ending_takes_sigkill_where_sigterm_is_ignored() -> None:
    """The whole group goes, also what the process has started."""
    code = "trap '' TERM; sleep 300 & echo $!; while :; do wait; done"
    process = subprocess.Popen(
        ["/bin/sh", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    identity = identify(process.pid)
    assert identity is not None
    end(identity, grace=0.1)
    assert wait_gone(identity, 0)
    until(lambda: not running(child))
    process.communicate()


def test_leftovers_of_a_dead_owner_are_ended_and_a_reused_pid_survives(tmp_path: Path) -> None:
    """A record names pid, start and boot: a foreign process that got the pid is left alone."""
    ours, foreign, unrecorded = sleeper(), sleeper(), sleeper()
    space = Workspace(tmp_path / "state")
    space.acquire()
    space.release()
    identity, other = identify(ours.pid), identify(foreign.pid)
    assert identity is not None
    assert other is not None
    space.records.write("etcd", identity)
    # The pid is the foreign process's now; what was recorded had started earlier.
    space.records.write("kube-apiserver", dataclasses.replace(other, start=other.start - 1))
    space.records.write("other-boot", dataclasses.replace(other, boot="before the reboot"))
    space.acquire()
    assert ours.wait(10) == -signal.SIGTERM
    assert foreign.poll() is None
    assert unrecorded.poll() is None
    assert set(space.records.living()) == {"owner"}
    space.release()
    for process in (foreign, unrecorded):
        process.kill()
        process.wait()


def test_a_damaged_record_is_dropped(tmp_path: Path) -> None:
    """A disk that was full must not stop the next start."""
    space = Workspace(tmp_path / "state")
    space.acquire()
    space.release()
    space.records.path("etcd").write_text('{"pid": 1')
    space.acquire()
    assert set(space.records.living()) == {"owner"}
    space.release()


def test_a_directory_in_use_is_refused_with_its_owner(tmp_path: Path) -> None:
    """Until the owner gives it up."""
    first, second = Workspace(tmp_path / "state"), Workspace(tmp_path / "state")
    first.acquire()
    with pytest.raises(DirectoryInUse, match=f"process {os.getpid()} runs a cluster"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    """Nothing of the user's is ever removed."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="not a kubelocal cluster"):
        Workspace(tmp_path).acquire()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_process_is_recorded_by_itself_and_forgotten_at_its_end(tmp_path: Path) -> None:
    """The record is there before the program runs, and names this very process."""
    started = supervisor(tmp_path)
    records = Records(tmp_path / "processes")
    started.start("one", [SLEEP, "300"], ENV)
    (process,) = started.processes
    until(lambda: "one" in records.living())
    assert records.read("one") == identify(process.pid)
    started.stop("one")
    assert started.processes == ()
    assert records.read("one") is None
    started.close(kill=True)


def test_a_process_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """The kernel ties a child to the thread that forked it: that must not be a caller's."""
    started = supervisor(tmp_path)
    thread = threading.Thread(target=started.start, args=("one", [SLEEP, "300"], ENV))
    thread.start()
    thread.join()
    until(lambda: "one" in Records(tmp_path / "processes").living())
    (process,) = started.processes
    assert Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n"
    started.close(kill=True)
    assert not running(process.pid)


PARENT = """
import sys, time
from pathlib import Path
from kubelocal.processes import Records
from kubelocal.supervisor import Supervisor
root = Path(sys.argv[1])
for name in ("processes", "logs"):
    (root / name).mkdir()
started = Supervisor(Records(root / "processes"), root / "logs", tie=sys.argv[2] == "tie")
started.start("one", ["/bin/sleep", "300"], {})
print(started.processes[0].pid, flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "kept"])
def test_a_killed_parent_takes_tied_processes_along_and_leaves_kept_ones(
    tmp_path: Path, *, tie: bool
) -> None:
    """SIGKILL gives the parent no chance to do it itself."""
    parent = python(PARENT, str(tmp_path), "tie" if tie else "keep")
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    records = Records(tmp_path / "processes")
    until(lambda: "one" in records.living())
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    if tie:
        until(lambda: not running(pid))
    else:
        assert running(pid)
        end(records.living()["one"], grace=5)
        assert not running(pid)


def test_stopping_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    """After the grace time, not for ever."""
    started = supervisor(tmp_path)
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
    started.start("one", ["/bin/sh", "-c", stubborn], ENV)
    until(lambda: "ready" in started.log("one").read_text())
    (process,) = started.processes
    started.stop("one", grace=0.05)
    assert not running(process.pid)
    started.close(kill=True)


def test_a_process_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    """And whether it was the port that somebody else had taken."""
    started = supervisor(tmp_path)
    words = "listen tcp 127.0.0.1:1: bind: address already in use"
    started.start("one", ["/bin/sh", "-c", f"echo '{words}'; exit 3"], ENV)
    with pytest.raises(StartFailed, match="one ended with exit code 3") as error:
        started.wait("one", lambda: False, 10)
    assert words in str(error.value)
    assert lost_port(error.value)
    started.close(kill=True)


def test_a_process_that_never_gets_ready_is_reported(tmp_path: Path) -> None:
    """With where its output is."""
    started = supervisor(tmp_path)
    started.start("one", [SLEEP, "300"], ENV)
    with pytest.raises(StartFailed, match="one was not ready after 0 s") as error:
        started.wait("one", lambda: False, 0)
    assert str(started.log("one")) in str(error.value)
    assert not lost_port(error.value)
    started.close(kill=True)


def test_a_program_that_is_not_there_ends_with_its_name(tmp_path: Path) -> None:
    """Not with a silent wait."""
    started = supervisor(tmp_path)
    started.start("one", [str(tmp_path / "none")], ENV)
    with pytest.raises(StartFailed, match="No such file"):
        started.wait("one", lambda: False, 10)
    started.close(kill=True)


def test_the_launcher_gives_up_when_its_parent_died_before_it_could_tie_itself() -> None:
    """A wrong parent pid is what it then sees."""
    how = f'{{"parent": {os.getpid() + 1}, "record": "", "tie": true, "watch": false}}'
    launch = Path(sys.modules["kubelocal.supervisor"].__file__ or "").with_name("launch.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", launch, how, "/bin/echo", "ran"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
