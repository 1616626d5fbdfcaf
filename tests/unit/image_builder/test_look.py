"""Looking at an image: the table, the JSON, the boot test, and what they say of a bad one."""

import json

import pytest

from tests.unit.image_builder.bench import Bench, Run

CONSOLE = """\
[    1.0] something before
CAPVCO-BOOT-CMDLINE\r
BOOT_IMAGE=/boot/vmlinuz root=UUID=x ro {arguments}\r
CAPVCO-BOOT-MODULES\r
Module                  Size  Used by\r
virtio_net             16384  0\r
{modules}CAPVCO-BOOT-END\r
"""
BAD = {
    "blacklist": ("required", "absent", "/etc/modprobe.d does not blacklist nova_core"),
    "arguments": ("required", "absent", "there is no grub.cfg"),
}


def check(bench: Bench, *options: str) -> Run:
    return bench.run("--check", str(bench.base), *options)


def test_a_good_image(bench: Bench) -> None:
    """Status 0; optional things may be absent."""
    run = check(bench)
    assert run.code == 0, run.said
    lines = [line.split(None, 3) for line in run.out.splitlines()]
    assert lines[0] == ["CHECK", "NEED", "STATE", "DETAIL"]
    assert ["blacklist", "required", "ok", "/etc/modprobe.d/capvco-gpu-base.conf"] in lines
    assert ["driver", "optional", "absent", 'a "quoted" detail'] in lines
    assert "MISSING" not in run.out
    assert not bench.remains()


def test_an_image_that_lacks_something(bench: Bench) -> None:
    """Status 4; each thing is named with its reason."""
    bench.facts(BAD)
    run = check(bench)
    assert run.code == 4, run.said
    missing = [line.split(None, 3) for line in run.out.splitlines() if "MISSING" in line]
    assert [(line[0], line[3]) for line in missing] == [
        ("blacklist", BAD["blacklist"][2]),
        ("arguments", BAD["arguments"][2]),
    ]


def test_json(bench: Bench) -> None:
    """The same for programs."""
    bench.facts(BAD)
    run = check(bench, "-o", "json")
    assert run.code == 4
    said = json.loads(run.out)
    assert said["complete"] is False
    assert said["image"] == str(bench.base)
    checks = {each["name"]: each for each in said["checks"]}
    assert checks["arguments"]["state"] == "absent"
    assert checks["driver"]["detail"] == 'a "quoted" detail'


def test_an_image_that_tells_nothing(bench: Bench) -> None:
    """No fact at all is no verdict."""
    bench.played("facts", "bash: not found\n")
    run = check(bench)
    assert run.code == 1
    assert "tells nothing of itself: bash: not found" in run.said


@pytest.mark.parametrize(
    ("arguments", "modules", "code", "words"),
    [
        ("pci=realloc pci=nocrs", "", 0, "answered"),
        ("console=ttyS0 pci=nocrs pci=realloc quiet", "", 0, "answered"),
        ("pci=realloc", "", 4, "not started with pci=nocrs"),
        ("pci=reallocate pci=nocrs", "", 4, "not started with pci=realloc"),
        ("pci=realloc pci=nocrs", "nouveau 3000000 0\r\n", 4, "nouveau is loaded"),
        ("pci=realloc pci=nocrs", "nova_core 90000 1 nova_drm\r\n", 4, "nova_core is loaded"),
    ],
)
def test_boot(bench: Bench, arguments: str, modules: str, code: int, words: str) -> None:
    """What the kernel was told, and what it has loaded, is shown and judged."""
    bench.played("console", CONSOLE.format(arguments=arguments, modules=modules))
    run = check(bench, "--boot-test")
    assert run.code == code, run.said
    assert words in run.said
    assert f"/proc/cmdline: BOOT_IMAGE=/boot/vmlinuz root=UUID=x ro {arguments}" in run.out
    assert "virtio_net" in run.out
    assert not bench.remains()


def test_boot_after_a_build(bench: Bench) -> None:
    """The image is in its place, and the verdict is that of the boot."""
    bench.played("console", CONSOLE.format(arguments="quiet", modules=""))
    run = bench.build("--boot-test")
    assert run.code == 4
    assert bench.output.exists()


def test_no_answer(bench: Bench) -> None:
    """An image that stays silent is a failure; the end of its console is shown."""
    bench.played("console", "[    9.0] Kernel panic - not syncing: no root\n")
    run = check(bench, "--boot-test")
    assert run.code == 1
    assert "did not answer on its serial console" in run.said
    assert "Kernel panic" in run.said
