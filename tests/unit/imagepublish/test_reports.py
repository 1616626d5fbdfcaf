"""Outcomes, exit codes, and what is shown."""

import io

import msgspec
import pytest

from capvco.cli.imagepublish.codes import ORDER, Code, first
from capvco.cli.imagepublish.progress import Lines
from capvco.cli.imagepublish.reports import Outcome, Report, Result
from capvco.cli.imagepublish.screen import Screen
from capvco.vco.images import has_failed


def a_report(*outcomes: Outcome, detail: str = "") -> Report:
    return Report(
        customer="acme_1",
        name="n",
        file="f",
        format="raw",
        size=1,
        virtual_size=2,
        md5="m",
        boot_type="bios",
        os_type="Linux",
        os_name="Linux - other",
        memory_mib=512,
        boot_disk_gib=1,
        results=tuple(
            Result(location=f"l{n}", outcome=outcome, image_id=n or None, detail=detail)
            for n, outcome in enumerate(outcomes)
        ),
    )


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((Outcome.PUBLISHED, Outcome.PRESENT, Outcome.PLANNED), Code.FINE),
        ((Outcome.PUBLISHED, Outcome.DUPLICATE), Code.DUPLICATE),
        ((Outcome.NOT_READY, Outcome.DUPLICATE), Code.NOT_READY),
        ((Outcome.NOT_READY, Outcome.IMPORT_FAILED), Code.IMPORT_FAILED),
        ((Outcome.FAILED, Outcome.IMPORT_FAILED), Code.FAILED),
    ],
)
def test_the_worst_outcome_is_the_exit_code(outcomes: tuple[Outcome, ...], code: Code) -> None:
    """In the documented order."""
    assert a_report(*outcomes).code is code
    assert first() is Code.FINE
    assert {*ORDER, Code.INTERRUPTED} == {*Code}


def test_the_table_has_ids_to_copy_and_nothing_that_a_terminal_obeys() -> None:
    """One line per location."""
    screen = Screen(io.StringIO(), io.StringIO())
    screen.result(a_report(Outcome.FAILED, Outcome.PUBLISHED, detail="\x1b[2Jred"))
    assert isinstance(screen.out, io.StringIO)
    assert screen.out.getvalue().splitlines() == [
        "LOCATION   IMAGE ID   OUTCOME     DETAIL",
        "l0         -          failed      ?[2Jred",
        "l1         1          published   ?[2Jred",
    ]


def test_the_json_is_as_documented() -> None:
    """All keys, whatever their values."""
    screen = Screen(io.StringIO(), io.StringIO(), "json")
    screen.result(a_report(Outcome.PUBLISHED))
    assert isinstance(screen.out, io.StringIO)
    document = msgspec.json.decode(screen.out.getvalue(), type=dict[str, object])
    assert list(document) == [
        *("customer", "name", "file", "format", "size", "virtualSize", "md5", "bootType"),
        *("osType", "osName", "memoryMiB", "bootDiskGiB", "dryRun", "results", "exitCode"),
    ]
    assert document["results"] == [
        {"location": "l0", "outcome": "published", "imageId": None, "status": "", "detail": ""}
    ]


def test_lines_come_by_tenths() -> None:
    """Never twice, though a part may be sent again."""
    stream = io.StringIO()
    with Lines(stream) as lines:
        track = lines.track("be\x07", 1000)
        for done in (50, 100, 190, 100, 199, 250, 1000):
            track.at(done)
        track.phase("ending")
    assert stream.getvalue().splitlines() == [
        *(f"be?: {percent}% of 1.0 kB" for percent in (10, 20, 100)),
        "be?: ending",
    ]


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        *((word, True) for word in ("ERROR", "Failed", "CREATE_FAILED", "DISABLED", "DESTROYED")),
        *((word, False) for word in ("", "VIRTUAL", "CREATING", "CREATED", "CONVERTING")),
    ],
)
def test_only_what_is_surely_a_failure_is_one(status: str, failed: bool) -> None:
    """An unknown word may be a step on the way, and a failed image is removed."""
    assert has_failed(status) is failed
