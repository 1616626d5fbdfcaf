"""The builder at work on a real image: Debian 12, in libguestfs, booted under QEMU."""

import hashlib
import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.image.builder import Builder, Run
from tests.support.guests.debian import DebianImage

pytestmark = pytest.mark.timeout(2400)

ARGUMENTS = "pci=realloc pci=nocrs"


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checks(run: Run) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(run.out)["checks"]}


def test_r58_r59_the_untouched_base(builder: Builder, base: DebianImage) -> None:
    """It lacks the blacklist, in /etc and in the initramfs, and the arguments; status 4."""
    before = digest(base.disk)
    run = builder.run("--check", str(base.disk), "-o", "json")
    assert run.code == 4, run.said
    said = checks(run)
    lacking = {name for name, each in said.items() if each["state"] == "absent"}
    assert {name for name in lacking if said[name]["need"] == "required"} == {
        "blacklist",
        "initramfs",
        "arguments",
    }
    assert "nouveau nova_core nova_drm" in said["initramfs"]["detail"]
    assert said["cloud-init"]["state"] == "ok"
    assert said["boot-type"]["detail"] == "bios"
    assert {"driver", "toolkit", "runtime", "kubeadm", "guest-agent"} <= lacking
    assert digest(base.disk) == before
    assert not list(builder.scratch.iterdir())


def test_r58_r59_built(builder: Builder, base: DebianImage, built: Path) -> None:
    """Everything required is there, in the initramfs of every kernel and every menu entry."""
    run = builder.run("--check", str(built), "-o", "json")
    assert run.code == 0, f"{run.out}\n{run.said}"
    said = checks(run)
    assert json.loads(run.out)["complete"] is True
    assert said["blacklist"]["detail"] == "/etc/modprobe.d/capvco-gpu-base.conf"
    assert said["initramfs"]["detail"].endswith("has the blacklist")
    assert said["arguments"]["detail"].startswith(ARGUMENTS)
    assert said["boot-type"]["detail"] == "bios"
    assert built.stat().st_size < base.disk.stat().st_size
    assert sorted(path.name for path in built.parent.iterdir()) == ["gpu.qcow2", "gpu.qcow2.json"]


def test_booted(builder: Builder, built: Path) -> None:
    """By its own boot loader: the kernel has the arguments, and after the image's own."""
    before = digest(built)
    run = builder.run("--check", str(built), "--boot-test")
    assert run.code == 0, f"{run.out}\n{run.said}"
    line = next(line for line in run.out.splitlines() if line.startswith("/proc/cmdline: "))
    assert ARGUMENTS in line
    assert "console=ttyS0" in line
    assert "root=UUID=" in line
    assert "virtio_blk" in run.out
    assert digest(built) == before


def test_again(builder: Builder, base: DebianImage, built: Path) -> None:
    """The same again does nothing, at once."""
    before = digest(built), built.stat().st_mtime_ns
    began = time.monotonic()
    run = builder.run("--base-image", str(base.disk), "--output", str(built))
    assert run.code == 0, run.said
    assert "nothing to do" in run.said
    assert time.monotonic() - began < 30
    assert (digest(built), built.stat().st_mtime_ns) == before


def test_without_grub(builder: Builder, without_grub: DebianImage, tmp_path: Path) -> None:
    """An image that the builder cannot give arguments to is refused, and nothing is left."""
    output = tmp_path / "dist" / "gpu.qcow2"
    run = builder.run("--base-image", str(without_grub.disk), "--output", str(output))
    assert run.code == 1
    assert "the image has no update-grub" in run.said
    assert not list(output.parent.iterdir())
    assert not list(builder.scratch.iterdir())


def test_interrupted(builder: Builder, base: DebianImage, tmp_path: Path) -> None:
    """A build that is ended in its longest step leaves no file and no process."""
    output = tmp_path / "dist" / "gpu.qcow2"
    process = builder.start("--base-image", str(base.disk), "--output", str(output))
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            if "initramfs and GRUB's menu ..." in line:
                break
        work = next(output.parent.glob(".capvco-image.*/work.qcow2"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert not list(output.parent.iterdir())
    deadline = time.monotonic() + 20
    while users(work):
        assert time.monotonic() < deadline, users(work)
        time.sleep(0.2)


def users(path: Path) -> list[str]:
    """Name the processes whose command line has this path."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(path).encode() in command:
                found.append(entry.name)
    return found
