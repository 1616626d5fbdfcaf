"""A build as seen from outside: what it leaves, what it says, and when it does nothing."""

import hashlib
import signal

import pytest

from tests.unit.image_builder.bench import Bench, Run, eventually


def works(run: Run) -> Run:
    assert run.code == 0, run.said
    return run


def fails(run: Run, words: str) -> None:
    assert run.code == 1, run.said
    assert words in run.said


def test_what_is_left(bench: Bench) -> None:
    """The image, a record with its sum, and nothing else; the base is untouched."""
    before = bench.base.read_bytes()
    works(bench.build())
    assert bench.output.read_bytes() == b"the new image"
    assert bench.record()["sha256"] == hashlib.sha256(b"the new image").hexdigest()
    assert bench.record()["base"] == hashlib.sha256(before).hexdigest()
    assert bench.base.read_bytes() == before
    assert not bench.remains()


def test_again(bench: Bench) -> None:
    """The same inputs, the image as it was made: nothing is done, though a build would fail."""
    works(bench.build())
    bench.played("fail-base", "no")
    run = works(bench.build())
    assert "nothing to do" in run.said
    fails(bench.build("--force"), "nothing is left of it")
    assert bench.output.read_bytes() == b"the new image"


def test_again_with_another_base(bench: Bench) -> None:
    """What decides is the base's content: the same under another name changes nothing."""
    works(bench.build())
    bench.played("converted", "another image")
    copy = bench.base.with_name("copy.qcow2")
    copy.write_bytes(bench.base.read_bytes())
    works(bench.run("--base-image", str(copy), "--output", str(bench.output)))
    assert bench.output.read_bytes() == b"the new image"
    copy.write_bytes(b"another base")
    works(bench.run("--base-image", str(copy), "--output", str(bench.output)))
    assert bench.output.read_bytes() == b"another image"


def test_again_with_a_damaged_image(bench: Bench) -> None:
    """An image that is not the one that was made is made again."""
    works(bench.build())
    bench.output.write_bytes(b"cut sh")
    works(bench.build())
    assert bench.output.read_bytes() == b"the new image"


@pytest.mark.parametrize(
    "options",
    [["--driver", "570"], ["--kubernetes-version", "v1.35.8"], ["--packages", "qemu-guest-agent"]],
)
def test_again_with_other_options(bench: Bench, options: list[str]) -> None:
    """Anything baked in makes another image."""
    works(bench.build())
    made = dict.fromkeys(("driver", "toolkit", "runtime"), ("optional", "ok", ""))
    bench.facts(made)
    bench.played("converted", "another image")
    works(bench.build(*options))
    assert bench.output.read_bytes() == b"another image"


@pytest.mark.parametrize("step", ["base", "initramfs", "seal"])
def test_a_step_fails(bench: Bench, step: str) -> None:
    """Its output is shown, and nothing is left, not even of an earlier image's place."""
    bench.output.parent.mkdir()
    bench.output.write_bytes(b"an older image")
    bench.played(f"fail-{step}", "capvco-image: ERROR: the image has no update-grub\n")
    fails(bench.build(), "the image has no update-grub")
    assert bench.output.read_bytes() == b"an older image"
    assert not bench.remains()


def test_not_what_it_should_be(bench: Bench) -> None:
    """What was built is looked at: an image that lacks something never reaches its place."""
    bench.facts({"initramfs": ("required", "absent", "initrd.img-6.1 does not blacklist nouveau")})
    run = bench.build()
    fails(run, "still lacks what is MISSING")
    assert "initrd.img-6.1 does not blacklist nouveau" in run.said
    assert not bench.output.exists()
    assert not bench.remains()


def test_a_driver_that_is_not_there_after_all(bench: Bench) -> None:
    """With --driver, the driver is no optional thing."""
    fails(bench.build("--driver", "570"), "are not all there")
    assert not bench.output.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interrupted(bench: Bench, number: signal.Signals) -> None:
    """A signal ends it at once, in the middle of a long step, and nothing is left."""
    with bench.hanging("initramfs") as process:
        process.send_signal(number)
        assert process.wait(10) == 128 + number
    eventually(lambda: not bench.remains())
    assert not bench.output.exists()


def test_no_image(bench: Bench) -> None:
    """A file that is no disk image is refused, and named."""
    bench.base.write_bytes(b"")
    fails(bench.build(), f"{bench.base} is no disk image: not an image")


def test_a_difference(bench: Bench) -> None:
    """An image that names another file would carry that file's content into the new image."""
    bench.played("backing")
    fails(bench.build(), "flatten it")


@pytest.mark.parametrize(
    ("systems", "words"), [("", "no operating system"), ("/dev/sda1\n/dev/sdb1\n", "more than one")]
)
def test_systems(bench: Bench, systems: str, words: str) -> None:
    """Neither an empty disk nor a choice of systems can be prepared."""
    bench.played("systems", systems)
    fails(bench.build(), words)


def test_size(bench: Bench) -> None:
    """No image is made smaller."""
    run = bench.build("--size", "2")
    assert run.code == 2
    assert "3072 MiB" in run.said


def test_what_goes_into_the_image(bench: Bench) -> None:
    """The node's own scripts are what installs there, and a driver of the user's goes along."""
    driver = bench.folder / "licensed.run"
    driver.write_text("driver")
    bench.facts(dict.fromkeys(("driver", "toolkit", "runtime"), ("optional", "ok", "")))
    works(bench.build("--driver-package", str(driver)))
    payload = (bench.play / "payload").read_text().split()
    assert {"./bake.sh", "./driver.run", "./node/driver.sh", "./node/toolkit.sh"} <= set(payload)
