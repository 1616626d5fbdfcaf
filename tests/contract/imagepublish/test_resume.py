"""Killed in the middle, and what the next run makes of it; as a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from capvco.cli.imagepublish.codes import Code
from tests.contract.imagepublish.conftest import ANY_PART, FINISH, LONG, START, Desk
from tests.support.disks import a_raw_disk
from vcosim.control import When
from vcosim.stock import BE

MIB = 1 << 20
COMMAND = [sys.executable, "-c", "from capvco.cli.imagepublish import main; main()"]


@contextmanager
def running(desk: Desk) -> Iterator[subprocess.Popen[str]]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.Popen(
        [*COMMAND, *desk.tokens()],
        env=kept | desk.environment | {"TERM": "dumb"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    return process.stderr.readline() if process.stderr else ""


@pytest.mark.parametrize(
    ("route", "nth", "committed", "sent_again"),
    [
        (START, 1, False, ["1", "2", "3"]),
        (START, 1, True, ["1", "2", "3"]),
        (ANY_PART, 1, False, ["1", "2", "3"]),
        (ANY_PART, 2, True, ["2", "3"]),
        (ANY_PART, 3, False, ["3"]),
        (ANY_PART, 3, True, ["3"]),
        (FINISH, 1, True, []),
    ],
)
def test_killed_at_any_step_the_next_run_goes_on(
    desk: Desk, route: str, nth: int, committed: bool, sent_again: list[str]
) -> None:
    """It sends what the platform has not got, and makes one image."""
    desk.fail("slow", route, When(nth=nth), seconds=LONG, committed=committed)
    with running(desk) as process:
        desk.arrived(route, nth)
        if committed and route == FINISH:
            desk.made()
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
    desk.end_waits()
    desk.control.faults.clear()
    desk.control.clear_calls()
    ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.FINE, {BE: "published"}), ran.err
    assert [call.path.rpartition("/")[2] for call in desk.calls(ANY_PART)] == sent_again
    desk.assert_published()


def test_killed_while_a_part_is_on_its_way(desk: Desk) -> None:
    """Half a part is no part: the platform never saw it."""
    desk.control.set(upload_part_size=48 * MIB)
    a_raw_disk(desk.image, 50 * MIB)
    desk.fail("slow", ANY_PART, When(nth=1), seconds=LONG)
    with running(desk) as process:
        while "10% of 52.4 MB" not in (line := _line(process)) or line.startswith("MD5"):
            assert line, "it ended before"
        process.kill()
    desk.end_waits()
    desk.control.faults.clear()
    desk.control.clear_calls()
    assert desk.publish().outcomes == {BE: "published"}
    assert [call.path.rpartition("/")[2] for call in desk.calls(ANY_PART)] == ["1", "2"]
    (made,) = desk.images()
    assert made["bytes"] == 50 * MIB


def test_ctrl_c_is_a_pause(desk: Desk) -> None:
    """It says so; the parts that are there are not sent again."""
    desk.fail("slow", ANY_PART, When(nth=3), seconds=LONG)
    with running(desk) as process:
        desk.arrived(ANY_PART, 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == Code.INTERRUPTED
    assert out == ""
    assert err.splitlines()[-1] == "stopped; the same command goes on from here"
    assert "Traceback" not in err
    desk.end_waits()
    desk.control.faults.clear()
    desk.control.clear_calls()
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}
    assert "2 of 3 parts are there already" in ran.err
    assert [call.path.rpartition("/")[2] for call in desk.calls(ANY_PART)] == ["3"]
    desk.assert_published()


def test_an_upload_that_the_platform_forgot_begins_anew(desk: Desk) -> None:
    """Uploads do not live for ever."""
    desk.interrupt_at_part(3)
    desk.control.set(upload_life_seconds=60)
    desk.control.clock.advance(3600)
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}, ran.err
    assert "begins anew" in ran.err
    desk.assert_published()


def test_a_platform_that_forgets_every_upload_ends_the_run(desk: Desk) -> None:
    """After a few starts, with its words."""
    desk.fail("status", FINISH, status=404, html=False)
    ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.FAILED, {BE: "failed"})
    assert "was answered 404" in ran.detail
    assert len(desk.calls(START)) == 3


def test_parts_that_the_platform_lost_are_sent_anew(desk: Desk) -> None:
    """A refused end of a resumed upload may mean that; a fresh one is tried before giving up."""
    desk.interrupt_at_part(3)
    desk.fail("status", FINISH, When(nth=1), status=400, html=False)
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}, ran.err
    desk.assert_published()


def test_another_file_under_the_same_name_does_not_inherit(desk: Desk) -> None:
    """State belongs to the content."""
    desk.interrupt_at_part(3)
    content = desk.image.read_bytes()
    desk.image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    desk.control.clear_calls()
    assert desk.publish().outcomes == {BE: "published"}
    assert len(desk.calls(START)) == 1
    desk.assert_published()


def test_a_moved_file_does(desk: Desk) -> None:
    """Wherever it lies and whatever it is called."""
    desk.interrupt_at_part(3)
    desk.image = desk.image.rename(desk.folder / "elsewhere.qcow2")
    desk.control.clear_calls()
    assert desk.publish().outcomes == {BE: "published"}
    assert not desk.calls(START)
