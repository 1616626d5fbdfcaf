"""The image builder on a workbench: libguestfs and QEMU are played, all else is real."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

BUILDER = Path(__file__).parents[3] / "image-builder" / "build-gpu-base-image.sh"
_POLL = 0.02
_REAL = (
    *("awk", "bash", "basename", "cat", "chmod", "cp", "curl", "cut", "dirname", "du", "env"),
    *("flock", "grep", "head", "id", "kill", "mapfile", "mkdir", "mktemp", "mv", "paste"),
    *("readlink", "rm", "rmdir", "sed", "sh", "sha256sum", "sleep", "sort", "tail", "tar"),
    *("timeout", "touch", "tr", "gpgv"),
)
"""What the builder may find on any machine."""

GOOD = {
    "system": ("optional", "ok", "Debian, kernel 6.1"),
    "blacklist": ("required", "ok", "/etc/modprobe.d/capvco-gpu-base.conf"),
    "initramfs": ("required", "ok", "initrd.img-6.1 has the blacklist"),
    "arguments": ("required", "ok", "2 entries"),
    "cloud-init": ("required", "ok", "22.4.2"),
    "driver": ("optional", "absent", 'a "quoted" detail'),
    "toolkit": ("optional", "absent", ""),
    "runtime": ("optional", "absent", ""),
}

_GUESTFISH = """\
#!/bin/bash
# Plays guestfish: a server that lives until it is told to exit, and an image that tells its facts.
play=$PLAY
if [[ $1 == --listen ]]; then
  sleep 300 >/dev/null 2>&1 &
  echo "GUESTFISH_PID=$!; export GUESTFISH_PID"
  exit 0
fi
server=${1#--remote=}
shift 2
kill -0 "$server" || exit 1
case $1 in
  inspect-os) cat "$play/systems" ;;
  inspect-get-mountpoints) echo "/: /dev/sda1" ;;
  exit) kill "$server" ;;
  tar-in) tar -tf "$2" >"$play/payload" ;;
  sh)
    step=${2##*/} step=${step%%.sh*}
    if [[ -e $play/hang-$step ]]; then : >"$play/hangs"; exec sleep 300; fi
    status=0
    [[ $step != facts ]] || cat "$play/facts"
    if [[ -e $play/fail-$step ]]; then cat "$play/fail-$step"; status=1; fi
    # As the real one does, with an empty line after all.
    printf '\\nstatus %s\\n\\n' "$status" ;;
esac
"""
_QEMU_IMG = """\
#!/bin/bash
# Plays qemu-img: the last argument is what is written.
case $1 in
  info)
    [[ -s ${!#} ]] || { echo 'not an image' >&2; exit 1; }
    if [[ -e $PLAY/backing ]]; then extra='    "backing-filename": "/etc/passwd",'; fi
    printf '{\\n%s\\n    "virtual-size": 3221225472,\\n    "format": "qcow2"\\n}\\n' "$extra" ;;
  convert) cp "$PLAY/converted" "${!#}" ;;
  create) : >"${!#}" ;;
esac
"""
_QEMU = """\
#!/bin/bash
for argument in "$@"; do
  [[ $argument != file:* ]] || cat "$PLAY/console" >"${argument#file:}"
done
"""
_STAND_INS = {
    "guestfish": _GUESTFISH,
    "qemu-img": _QEMU_IMG,
    "qemu-system-x86_64": _QEMU,
    "genisoimage": "#!/bin/sh\nexit 0\n",
}


class Run(Struct, frozen=True):
    """How the builder ended."""

    code: int
    out: str
    said: str
    """What it said to a person."""


class Bench:
    """A folder with everything that the builder sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin, self.play, self.dist = folder / "bin", folder / "play", folder / "dist"
        for each in (self.bin, self.play, folder / "home", folder / "tmp"):
            each.mkdir(parents=True)
        for name in _REAL:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        for name, text in _STAND_INS.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.base = folder / "base.qcow2"
        self.base.write_bytes(b"a base image")
        self.output = self.dist / "gpu.qcow2"
        (self.play / "converted").write_bytes(b"the new image")
        (self.play / "systems").write_text("/dev/sda1\n")
        self.facts({})

    def facts(self, other: Mapping[str, tuple[str, str, str]]) -> None:
        """Let the image tell these, where they differ from those of a good one."""
        lines = ("\t".join((name, *rest)) + "\n" for name, rest in {**GOOD, **other}.items())
        (self.play / "facts").write_text("".join(lines))

    def without(self, program: str) -> None:
        (self.bin / program).unlink()

    def played(self, name: str, text: str = "") -> None:
        (self.play / name).write_text(text)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "PLAY": str(self.play),
            "SUPERMIN_KERNEL": "/a/kernel",
            "CAPVCO_IMAGE_TRIES": "3",
            "CAPVCO_IMAGE_RETRY_PAUSE": "0",
            "no_proxy": "*",
        }

    def command(self, *options: str) -> list[str]:
        return [str(self.bin / "bash"), str(BUILDER), *options]

    def run(self, *options: str) -> Run:
        """Run the builder."""
        done = subprocess.run(
            self.command(*options),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def build(self, *options: str) -> Run:
        """Build from the base image into the output."""
        return self.run("--base-image", str(self.base), "--output", str(self.output), *options)

    def remains(self) -> list[str]:
        """Name what is in the folders where the builder works, but for finished images."""
        places = [*self.dist.glob("*"), *self.dist.glob(".*"), *(self.folder / "tmp").glob("*")]
        finished = {self.output.name, f"{self.output.name}.json"}
        return sorted(path.name for path in places if path.name not in finished)

    def record(self) -> dict[str, str]:
        record: dict[str, str] = json.loads(self.output.with_name("gpu.qcow2.json").read_text())
        return record

    @contextmanager
    def hanging(self, step: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a build until it hangs in a step; afterwards nothing of it runs."""
        self.played(f"hang-{step}")
        process = subprocess.Popen(
            self.command("--base-image", str(self.base), "--output", str(self.output)),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            eventually((self.play / "hangs").exists)
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def eventually(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(_POLL)
