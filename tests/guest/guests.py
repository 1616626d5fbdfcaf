"""A guest from its power-on to its report: what its console, its files and the cluster say."""

import itertools
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tests.guest.image import PROGRAMS, node_image
from tests.guest.modules import kernel_version, modules
from tests.guest.programs import programs_disk
from tests.guest.workers import Workers
from tests.support.guests.debian import DebianImage
from tests.support.guests.qemu import Machine, boot, overlay, seed
from tests.support.scenario import Object

_SECONDS = 2700.0
"""From power-on to the report. A tenth would do with KVM, a third on a quiet machine without."""
KUBEADM = r"\[preflight\] Running pre-flight checks"
"""The first that kubeadm says."""
_REPORT_BYTES = 8 << 20
_END = "guest: end"


class Programs(Struct, frozen=True):
    """The disk with what guests of a kernel run."""

    disk: Path
    kernel: str


class Booted(Struct, frozen=True):
    """What became of a worker's first boot."""

    name: str
    console: tuple[str, ...]
    files: Mapping[str, bytes]
    node: Object
    """As the API server has it."""
    seconds: float

    def text(self, path: str) -> str:
        """Return a file of the guest."""
        assert path in self.files, f"{path} is not in {sorted(self.files)}"
        return self.files[path].decode()

    def where(self, pattern: str) -> int:
        """Return where on the console a pattern is first found."""
        found = (n for n, line in enumerate(self.console) if re.search(pattern, line))
        at = next(found, None)
        assert at is not None, f"not on the console: {pattern}\n{self.tail()}"
        return at

    def tail(self) -> str:
        """Return the end of the console, for a failed test."""
        return "\n".join(self.console[-80:])

    def figures(self) -> str:
        """Say how long it took, and what really ran."""
        took = r"capvco: (?:(\w+) step: took|([a-z]+): done in) (\d+ s).*"
        first = itertools.takewhile(lambda line: not re.search(KUBEADM, line), self.console)
        found = [re.fullmatch(took, line) for line in first]
        steps = [f"{f[1] or f[2]} {f[3]}" for f in found if f]
        versions = " | ".join(map(str.strip, self.text("run/guest/versions").splitlines()))
        kernel = self.text("run/guest/kernel").strip()
        return f"{self.name}: {self.seconds:.0f} s ({', '.join(steps)}); {kernel} | {versions}"


def programs(folder: Path) -> Programs:
    """Make the disk; minutes on the first use on a machine."""
    kernel = kernel_version(node_image().kernel)
    return Programs(programs_disk(PROGRAMS, kernel, modules(kernel), folder), kernel)


def first_boot(
    workers: Workers,
    image: DebianImage,
    programs: Programs,
    name: str,
    folder: Path,
    **spec: object,
) -> Booted:
    """Make a worker, boot its guest with its user data, and wait for its report.

    Raises GuestError, with the end of the console, if there is none in time.
    """
    assert kernel_version(image.kernel) == programs.kernel, "one image is older: empty the cache"
    folder.mkdir(parents=True)
    instance = {"instance-id": f"i-{name}", "local-hostname": name}
    data = {"user-data": workers.make(name, **spec), "meta-data": json.dumps(instance)}
    report = folder / "report"
    with report.open("wb") as file:
        file.truncate(_REPORT_BYTES)
    machine = Machine(
        disk=overlay(image.disk, folder / "disk.qcow2"),
        kernel=image.kernel,
        initrd=image.initrd,
        # Its progress would be written into other lines.
        arguments=(*image.arguments, "systemd.show_status=error"),
        volumes=(seed(folder, data), programs.disk),
        # A disk, since a serial port may lose its last bytes on a busy machine. The last one, or
        # the others had other names.
        extra=(
            *("-drive", f"file={report},if=none,id=report,format=raw"),
            *("-device", "virtio-blk-pci,drive=report,serial=report,addr=0x1e"),
        ),
    )
    with boot(machine, folder) as guest:
        guest.wait_for(_END, seconds=_SECONDS)
        seconds, console = guest.age, tuple(guest.lines())
        try:
            workers.until(f"{name} to say all of its node", lambda: _told(workers, name), 180)
        except AssertionError as error:
            error.add_note(f"the end of its console:\n{guest.tail()}")
            raise
    return Booted(name, console, _files(report), _told(workers, name), seconds)


def _told(workers: Workers, name: str) -> Object:
    """Return a Node, empty until its kubelet has heard of the runtimes."""
    found = workers.node(name) or {}
    return found if found.get("status", {}).get("runtimeHandlers") else {}


def _files(report: Path) -> dict[str, bytes]:
    with tarfile.open(report, mode="r:gz") as archive:
        return {
            member.name: found.read()
            for member in archive
            if (found := archive.extractfile(member)) is not None
        }
