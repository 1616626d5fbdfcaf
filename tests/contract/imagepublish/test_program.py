"""The command as a process: what is on the screen, and what it costs."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import entry_points

import msgspec
import pytest
import yaml

from capvco.cli.access import VARIABLES
from capvco.cli.imagepublish import main
from capvco.cli.imagepublish.codes import Code
from kubelocal import LocalCluster
from tests.contract.imagepublish.conftest import ANY_PART, NAME, Desk
from tests.support.disks import a_raw_disk
from vcosim.control import When
from vcosim.stock import BE, NL

COMMAND = [sys.executable, "-c", "from capvco.cli.imagepublish import main; main()"]
# Not ru_maxrss: that begins with the memory of the process that started this one.
MEASURED = [
    sys.executable,
    "-c",
    """
import atexit, pathlib, re
status = pathlib.Path("/proc/self/status")
peak = re.compile(r"VmHWM:\\s+(\\d+) kB")
atexit.register(lambda: print(peak.search(status.read_text())[1]))
from capvco.cli.imagepublish import main
main()
""",
]


def environment(desk: Desk, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | desk.environment | {"TERM": "dumb"} | more


def process(
    desk: Desk, *tokens: str, command: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(command or COMMAND), *tokens],
        env=environment(desk),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_installs_it_under_its_name() -> None:
    """As the product page has it."""
    (found,) = entry_points(group="console_scripts", name="capvco-imagepublish")
    assert found.load() is main


def test_help_documents_every_flag_variable_and_exit_code(desk: Desk) -> None:
    """What a person needs is in --help, and -help."""
    ran = process(desk, "-help")
    assert (ran.returncode, ran.stderr) == (0, "")
    for word in ("--name", "--file", "--boot-type", "--locations", "--output -o", "--dry-run"):
        assert word in ran.stdout
    for variable in VARIABLES.values():
        assert variable in ran.stdout
    found = re.findall(r"^ *(\d+)  \S", ran.stdout, re.MULTILINE)
    assert {int(number) for number in found} == {int(code) for code in Code}


def test_what_the_product_page_says_works(desk: Desk) -> None:
    """``capvco-imagepublish -name N -file F -boot-type bios -locations L``."""
    what = ("-name", NAME, "-file", str(desk.image), "-boot-type", "bios")
    ran = process(desk, *what, "-locations", f"{BE},{NL}")
    assert (ran.returncode, ran.stdout.splitlines()) == (
        0,
        [
            "LOCATION          IMAGE ID   OUTCOME     DETAIL",
            f"{BE}   500        published",
            f"{NL}   500        published",
        ],
    )
    lines = ran.stderr.splitlines()
    assert f"{BE}: uploading" in lines
    assert f"{BE}: 40% of 10.0 kB" in lines
    assert f"{NL}: waiting for the import of image 500" in lines


def test_json_is_all_of_standard_output_and_retries_are_on_the_other(desk: Desk) -> None:
    """One document."""
    desk.fail("lose_after", ANY_PART, When(nth=2))
    ran = process(desk, *desk.tokens())
    document = msgspec.json.decode(ran.stdout, type=dict[str, object])
    assert document["exitCode"] == ran.returncode == 0
    assert "part 2: try 1 of 8" in ran.stderr
    assert "stamina" not in ran.stderr


def test_no_secret_is_ever_on_the_screen_or_in_the_state(desk: Desk) -> None:
    """Neither in results nor in errors, whatever fails."""
    desk.fail("status", ANY_PART, status=400, html=False)
    runs = [
        process(desk, *desk.tokens(), "--client-secret", "hush-2"),
        process(desk, *desk.tokens()),
    ]
    assert [ran.returncode for ran in runs] == [2, 1]
    others = [desk.publish(locations="nowhere"), desk.run("-name"), desk.publish("-jwt", "hush-2")]
    assert [ran.code for ran in others] == [2, 2, 2]
    kept = "".join(path.read_text() for path in (desk.folder / "state").rglob("*.json"))
    shown = [*(ran.stdout + ran.stderr for ran in runs), *(ran.out + ran.err for ran in others)]
    for text in (kept, *shown):
        assert desk.simulator.client_secret not in text
        assert "hush-2" not in text
        assert "eyJ" not in text
        assert "Traceback" not in text


def test_a_person_at_a_terminal_sees_bars(desk: Desk) -> None:
    """One for each location, with what is done now."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *desk.tokens(locations="all")],
        env=environment(desk, TERM="xterm", COLUMNS="150"),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as shown:
        os.close(theirs)
        seen = b""
        # The end of a terminal is an error on Linux.
        with suppress(OSError):
            while piece := os.read(ours, 4096):
                seen += piece
        assert shown.wait(20) == 0
    os.close(ours)
    text = seen.decode()
    assert "━" in text
    for name in (BE, NL):
        assert re.search(rf"{name}.*100%|{name}.*10\.0/10\.0 kB.*published", text)


@pytest.mark.timeout(120)
def test_memory_does_not_grow_with_the_file(desk: Desk) -> None:
    """Parts of 64 MiB are never in memory: below 100 MB, two locations at once."""
    desk.control.set(upload_part_size=64 * 1024 * 1024)
    a_raw_disk(desk.image, 192 * 1024 * 1024)
    ran = process(desk, *desk.tokens(locations="all"), command=MEASURED)
    assert ran.returncode == 0, ran.stderr
    kib = int(ran.stdout.splitlines()[-1])
    assert kib * 1024 < 100_000_000
    assert [image["bytes"] for image in desk.images()] == [192 * 1024 * 1024]


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_credentials_may_be_a_secret_s(desk: Desk, control_plane: LocalCluster) -> None:
    """Of the management cluster; a missing one is named."""
    namespace = control_plane.create_namespace("imagepublish")
    data = {
        key: desk.environment[name] for key, name in VARIABLES.items() if name in desk.environment
    }
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "vco", "namespace": namespace},
        "stringData": data,
    }
    control_plane.apply(yaml.safe_dump(document))
    where = ("--kubeconfig", str(control_plane.kubeconfig))
    ran = desk.run(*desk.tokens(*where, "--secret", f"{namespace}/vco"), environment={})
    assert ran.code == Code.FINE, ran.err
    lost = desk.run(*desk.tokens(*where, "--secret", f"{namespace}/none"), environment={})
    assert lost.code == Code.USAGE
    assert f"the Secret {namespace}/none" in lost.err


def test_a_kubeconfig_that_is_none(desk: Desk) -> None:
    """Is a matter of usage."""
    where = ("--kubeconfig", str(desk.folder / "none"), "--secret", "a/b")
    ran = desk.run(*desk.tokens(*where), environment={})
    assert ran.code == Code.USAGE
