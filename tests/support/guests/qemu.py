"""A real guest under QEMU: boots a disk, and is read on its serial console.

    disk = overlay(image, folder / "disk.qcow2")
    user_data = seed(folder, {"user-data": …, "meta-data": …})
    with boot(Machine(disk=disk, volumes=(user_data,), …), folder) as guest:
        guest.wait_for("TEST-DONE", seconds=600)

No root, no bridge: the guest reaches loopback of this machine as 10.0.2.2, and nothing reaches it.
Without KVM everything is some thirty times slower, so deadlines are generous.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from kubelocal.tie import launched

HOST = "10.0.2.2"
"""Where a guest finds loopback of this machine."""
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "genisoimage": "genisoimage",
}
"""The programs used here, and Debian's packages of them."""
_LOST = ("Kernel panic - not syncing", "(initramfs)", "You are in emergency mode")
"""Nothing comes after one of these."""
_POLL = 0.5
_GRACE = 10.0


class GuestError(Exception):
    """A guest did not do what it was waited for; the message has the end of its console."""


class Machine(Struct, frozen=True, kw_only=True):
    """What boots."""

    disk: Path
    """A qcow2 that is written to: an overlay, see `overlay`."""
    kernel: Path | None = None
    """Booted at once; without one the disk's own boot loader does it."""
    initrd: Path | None = None
    arguments: tuple[str, ...] = ()
    """More for the kernel's command line; `root=` as a rule."""
    volumes: tuple[Path, ...] = ()
    """Read-only disks: user data, see `seed`, and others, see `volume`."""
    memory: int = 1536
    """MiB."""
    cpus: int = 2
    extra: tuple[str, ...] = ()
    """More for QEMU's command line."""


def missing_tools() -> tuple[str, ...]:
    """Name Debian's packages of what is not installed here."""
    return tuple(package for tool, package in TOOLS.items() if shutil.which(tool) is None)


def has_kvm() -> bool:
    """Say whether KVM can start a kernel: a paravirtual nested one, without these flags, cannot."""
    flags = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").split()
    return ("svm" in flags or "vmx" in flags) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def overlay(base: Path, target: Path, *, format_: str = "qcow2") -> Path:
    """Make a disk that begins as the base, which stays as it is."""
    backing = ("-b", str(base.absolute()), "-F", format_)
    _run("qemu-img", "create", "-q", "-f", "qcow2", *backing, str(target))
    return target


def volume(label: str, source: Path, target: Path) -> Path:
    """Make a read-only disk of a folder; a guest finds it as /dev/disk/by-label/LABEL."""
    _run("genisoimage", "-quiet", "-o", str(target), "-V", label, "-r", str(source))
    return target


def seed(folder: Path, files: Mapping[str, str]) -> Path:
    """Make the disk that cloud-init's NoCloud reads: user-data, meta-data, network-config."""
    source = folder / "seed"
    source.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (source / name).write_text(text)
    return volume("cidata", source, folder / "seed.iso")


class Guest:
    """A machine that runs."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._began = time.monotonic()
        self.console = folder / "console.log"
        self.said = folder / "qemu.log"

    @property
    def age(self) -> float:
        """Seconds since its power-on."""
        return time.monotonic() - self._began

    def lines(self) -> list[str]:
        """Return what its console has shown so far."""
        if not self.console.exists():
            return []
        text = self.console.read_bytes().decode(errors="replace")
        return [line.rstrip("\r") for line in text.split("\n")]

    def wait_for(self, *markers: str, seconds: float) -> str:
        """Return the first of these whole lines that the console shows.

        Raises GuestError, with the console's end, if it is not there in time, or cannot come: a
        kernel that panics, a root that is not found, a machine that went.
        """
        deadline = time.monotonic() + seconds
        while True:
            gone = self._process.poll() is not None
            lines = self.lines()
            found = next((line for line in lines if line in markers), None)
            if found is not None:
                return found
            wanted = " or ".join(markers)
            lost = next((line for line in lines if any(text in line for text in _LOST)), None)
            if lost is not None:
                raise self._error(f"{lost.strip()}: no {wanted}")
            if gone:
                raise self._error(f"the machine went before {wanted}: {self.said.read_text()}")
            if time.monotonic() > deadline:
                raise self._error(f"no {wanted} on the console after {seconds:.0f} s")
            time.sleep(_POLL)

    def wait_off(self, seconds: float) -> None:
        """Wait until it has switched itself off. Raises GuestError."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._error(f"still on after {seconds:.0f} s") from None

    def tail(self, count: int = 60) -> str:
        """Return the console's last lines."""
        return "\n".join(self.lines()[-count:])

    def kill(self) -> None:
        """Take its power. Idempotent."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
                return

    def _error(self, what: str) -> GuestError:
        return GuestError(f"{what}; the end of its console:\n{self.tail()}")


@contextmanager
def boot(machine: Machine, folder: Path) -> Iterator[Guest]:
    """Run the machine until the block ends; it dies with this thread, however that ends.

    Its console and QEMU's own words are in the folder. One at a time, without KVM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        raise GuestError(f"not installed: {' '.join(missing_tools())}")
    command = launched([program, *_flags(machine, folder / "console.log")])
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    guest = Guest(process, folder)
    try:
        yield guest
    finally:
        guest.kill()


def _flags(machine: Machine, console: Path) -> list[str]:
    flags = [
        *_accelerator(),
        *("-m", str(machine.memory), "-smp", str(machine.cpus)),
        *("-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults"),
        *("-serial", f"file:{console}"),
        *("-drive", f"file={machine.disk},if=virtio,format=qcow2,cache=unsafe"),
        *("-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0,romfile="),
        *("-device", "virtio-rng-pci"),
    ]
    for path in machine.volumes:
        flags += ["-drive", f"file={path},if=virtio,format=raw,readonly=on"]
    if machine.kernel is not None:
        arguments = ("console=ttyS0", *_clock(), *machine.arguments)
        flags += ["-kernel", str(machine.kernel), "-append", " ".join(arguments)]
    if machine.initrd is not None:
        flags += ["-initrd", str(machine.initrd)]
    return [*flags, *machine.extra]


def _accelerator() -> tuple[str, ...]:
    if has_kvm():
        return ("-accel", "kvm", "-cpu", "host")
    # With any newer CPU model the guest leaves the TSC, and every look at the clock is an exit.
    return ("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "Westmere")


def _clock() -> tuple[str, ...]:
    """Return what keeps a guest's clock cheap under emulation."""
    return ("tsc=reliable", "clocksource=tsc", "hpet=disable", "mitigations=off")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GuestError(f"{' '.join(command)} failed: {done.stderr.strip()[-600:]}")
