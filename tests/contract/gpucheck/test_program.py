"""The command as a process: what is on the screen, and what a person at a terminal can do."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from capvco.cli.gpucheck.codes import Code
from capvco.services.record import Record
from kubelocal import LocalCluster
from tests.contract.gpucheck.cluster import Management
from tests.contract.gpucheck.conftest import Desk
from tests.contract.gpucheck.test_kubernetes import control_plane as control_plane  # noqa: PLC0414 - a fixture
from vcosim.stock import BE, CUSTOMER

COMMAND = [sys.executable, "-c", "from capvco.cli.gpucheck import main; main()"]
LOST = "capvco-deleted-gpu-0"


def environment(desk: Desk, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | desk.environment | {"KUBECONFIG": "/nonexistent", "TERM": "dumb"} | more


def process(desk: Desk, *tokens: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *tokens], env=environment(desk), capture_output=True, text=True, check=False
    )


def test_help_documents_every_flag_variable_and_exit_code(desk: Desk) -> None:
    """What a person needs is in --help, and -help."""
    ran = process(desk, "-help")
    assert (ran.returncode, ran.stderr) == (0, "")
    for word in ("--location", "--list", "--name-prefix", "--release", "--type", "--output -o"):
        assert word in ran.stdout
    for variable in environment(desk).keys() & desk.environment.keys():
        assert variable in ran.stdout
    found = re.findall(r"^ *(\d+)  \S", ran.stdout, re.MULTILINE)
    assert {int(number) for number in found} == {int(code) for code in Code}


def test_what_the_product_page_says_works(desk: Desk) -> None:
    """``capvco-gpucheck -location <location> -list -name-prefix capvco-``."""
    ours = desk.reserve(LOST)
    desk.reserve("render", 1)
    ran = process(desk, "-location", BE, "-list", "-name-prefix", "capvco-")
    assert ran.returncode == Code.OWNER_UNKNOWN
    lines = ran.stdout.splitlines()
    assert lines[0].split() == [
        *("LOCATION", "VGPU", "NAME", "MODEL", "VM", "BIN", "AGE", "OWNER", "WHY"),
    ]
    assert lines[1].split()[:5] == [BE, ours, LOST, "NVIDIA", "A100"]
    assert lines[2] == (
        f"{CUSTOMER} holds 2 reservation(s) in {BE}, 1 shown: 0 live, 0 foreign, 0 orphan,"
        " 1 unknown; 0 attached, 0 in the bin"
    )


def test_json_is_all_of_standard_output(desk: Desk) -> None:
    """Keys as documented, errors on the other stream."""
    desk.reserve(LOST)
    ran = process(desk, "-list", "--no-kubernetes", "-o", "json")
    document = msgspec.json.decode(ran.stdout, type=dict[str, object])
    assert document["exitCode"] == ran.returncode == Code.OWNER_UNKNOWN
    assert list(document) == [
        *("report", "customer", "errors", "exitCode", "locations", "kubernetes", "doubts"),
        *("holdings", "totals"),
    ]
    assert ran.stderr == ""


def test_no_secret_is_ever_on_the_screen(desk: Desk) -> None:
    """Neither in results nor in errors, whatever fails."""
    for tokens in (("-list",), ("-location", "nowhere"), ("-type",), ("--client-secret", "hush-2")):
        ran = process(desk, *tokens)
        said = ran.stdout + ran.stderr
        assert desk.simulator.client_secret not in said
        assert "hush-2" not in said
        assert "Traceback" not in said


@pytest.fixture
def management(control_plane: LocalCluster, tmp_path: Path) -> Iterator[Management]:
    made = Management(control_plane, control_plane.create_namespace("program"), tmp_path)
    made.machine("a", Record(owner="o", customer=CUSTOMER))
    yield made
    made.clear()


class Terminal:
    """The command at a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self._process, self._screen, self.seen = process, screen, ""

    def until(self, text: str) -> None:
        """Read until a text is on the screen."""
        deadline = time.monotonic() + 30
        while text not in self.seen:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._screen], [], [], max(left, 0))
            assert ready, f"{text!r} did not come; seen: {self.seen}"
            self.seen += os.read(self._screen, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """Wait for the end; return the exit code."""
        return self._process.wait(timeout=30)


@contextmanager
def terminal(desk: Desk, management: Management) -> Iterator[Terminal]:
    tokens = ["-release", "-location", BE, "-min-age", "0s"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *tokens],
        env=environment(desk, KUBECONFIG=management.kubeconfig),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


QUESTION = f"Release 1 reservation(s) of {CUSTOMER} for good? [yes/no] "


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_a_person_sees_what_goes_and_says_yes(desk: Desk, management: Management) -> None:
    """The whole word; then it is gone."""
    orphan = desk.reserve(LOST)
    with terminal(desk, management) as screen:
        screen.until(QUESTION)
        assert orphan in screen.seen
        assert desk.held == 1
        screen.type("yes\n")
        screen.until(f"{orphan} {LOST}: released")
        assert screen.ended() == Code.FINE
    assert desk.held == 0


@pytest.mark.cluster
@pytest.mark.timeout(180)
@pytest.mark.parametrize("answer", ["no\n", "y\n", "\n", "\x04"])
def test_anything_but_yes_releases_nothing(desk: Desk, management: Management, answer: str) -> None:
    """Also an end of file."""
    desk.reserve(LOST)
    with terminal(desk, management) as screen:
        screen.until(QUESTION)
        screen.type(answer)
        screen.until("declined")
        assert screen.ended() == Code.NOT_RELEASED
    assert desk.held == 1


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_ctrl_c_at_the_question_ends_it(desk: Desk, management: Management) -> None:
    """At once, with nothing released."""
    desk.reserve(LOST)
    with terminal(desk, management) as screen:
        screen.until(QUESTION)
        screen.interrupt()
        screen.until("stopped; --list shows what is held")
        assert screen.ended() == Code.INTERRUPTED
    assert desk.held == 1
