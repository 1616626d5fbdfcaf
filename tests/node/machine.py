"""A node in a folder: a root with a kernel's files, and programs on PATH that play the system's.

The programs are small shell scripts that read their parts from files in ``play/``; containerd and
nvidia-ctk are the real ones. Nothing outside of the folder is read or written.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

SCRIPTS = Path(__file__).parents[2] / "src/capvco/bootstrap/scripts"
KERNEL = "6.8.0-60-generic"
ASSIGNED = "0x0000380000000000 0x00003807ffffffff 0x000000000014220c"
UNASSIGNED = "0x0000000000000000 0x0000000000000000 0x0000000000000000"

# Each reads its part from the folder $PLAY, and says in $PLAY/calls what it was asked.
_PROGRAMS = {
    "uname": f"echo {KERNEL}",
    "dmesg": 'cat "$PLAY/kernel.log" 2>/dev/null',
    "journalctl": "exit 1",
    "modprobe": """
case "$*" in
  '-r nouveau' | '-r nova_core')
    [ ! -e "$PLAY/stuck" ] || exit 1
    rm -f "$CAPVCO_ROOT"/sys/bus/pci/devices/*/driver ;;
  nvidia)
    [ -e "$PLAY/module" ] || exit 1
    if [ -e "$PLAY/refuses" ]; then cat "$PLAY/refuses" >>"$PLAY/kernel.log"; exit 1; fi
    mkdir -p "$CAPVCO_ROOT/sys/module/nvidia"
    cp "$PLAY/module" "$CAPVCO_ROOT/sys/module/nvidia/version" ;;
esac""",
    "modinfo": '[ -e "$PLAY/module" ] && cat "$PLAY/module"',
    "apt-get": """
while :; do
  case "$1" in -y) shift ;; -o) shift 2 ;; *) break ;; esac
done
case "$1" in
  update) exit 0 ;;
  install) shift ;;
esac
case "$*" in
  -s*) cat "$PLAY/simulated" 2>/dev/null; exit 0 ;;
esac
lacks=$(cat "$PLAY/apt.lacks" 2>/dev/null || echo nothing)
case " $* " in *" $lacks="*) cat "$PLAY/apt.says"; exit 100 ;; esac
left=$(cat "$PLAY/apt.failures" 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then
  echo $((left - 1)) >"$PLAY/apt.failures"
  cat "$PLAY/apt.says"
  exit 100
fi
for name in "$@"; do
  if [ -d "$PLAY/brings/${name%%=*}" ]; then cp -P "$PLAY/brings/${name%%=*}"/* "$PLAY/bin"; fi
  case "$name" in
    nvidia-driver-*)
      [ -e "$PLAY/no-module" ] || cp "$PLAY/archive.version" "$PLAY/module"
      cp "$PLAY/nvidia-smi" "$PLAY/bin/nvidia-smi" ;;
    nvidia-container-toolkit | nvidia-container-toolkit=*)
      ln -sf "$PLAY/nvidia-ctk" "$PLAY/bin/nvidia-ctk"
      mkdir -p "$CAPVCO_ROOT/usr/bin"
      for place in "$PLAY/bin" "$CAPVCO_ROOT/usr/bin"; do
        printf '#!/bin/sh\\n' >"$place/nvidia-container-runtime"
        chmod +x "$place/nvidia-container-runtime"
      done ;;
    --*) continue ;;
  esac
  echo "$name" >>"$PLAY/installed"
done""",
    "apt-cache": """
case "$1" in
  show) grep -qxF "$2" "$PLAY/archive" && echo "Package: $2" ;;
  search) sed -n 's/$/ - NVIDIA Server Driver/p' "$PLAY/archive" | grep -E '^nvidia-driver-' ;;
esac""",
    "apt-mark": 'shift; printf "%s\\n" "$@" >>"$PLAY/held"',
    "dpkg-query": 'sed -n "s/^/ii  /p" "$PLAY/installed" 2>/dev/null | grep nvidia',
    "curl": """
for name; do
  case "$previous" in -o) target=$name ;; esac
  previous=$name
done
left=$(cat "$PLAY/curl.failures" 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then echo $((left - 1)) >"$PLAY/curl.failures"; exit 22; fi
cp "$PLAY/key" "$target" """,
    "systemctl": """
case "$1" in
  restart)
    echo restarted >>"$PLAY/restarts"
    dropin=$CAPVCO_ROOT/etc/containerd/conf.d/99-nvidia.toml
    if [ -e "$PLAY/containerd.breaks" ] && [ -e "$dropin" ]; then
      rm -f "$PLAY/active"
      exit 1
    fi
    touch "$PLAY/active" ;;
  is-active) [ -e "$PLAY/active" ] ;;
esac""",
}
_NVIDIA_SMI = """#!/bin/sh
echo "nvidia-smi $*" >>"$PLAY/calls"
if [ "$1" = -q ]; then cat "$PLAY/query" 2>/dev/null; exit 0; fi
code=$(cat "$PLAY/smi.status" 2>/dev/null || echo 0)
if [ ! -e "$CAPVCO_ROOT/sys/module/nvidia/version" ]; then code=9; fi
if [ "$code" != 0 ]; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
  exit "$code"
fi
cat "$PLAY/visible"
"""
_OF_THE_SYSTEM = (
    *("awk", "basename", "bash", "cat", "chmod", "cmp", "comm", "cp", "cut", "date", "dirname"),
    *("env", "grep", "head", "ln", "mkdir", "mktemp", "mv", "od", "paste", "printf", "readlink"),
    *("rm", "sed", "sh", "sleep", "sort", "tail", "timeout", "touch", "tr", "nice"),
)


class Run(Struct, frozen=True):
    """How a script ended."""

    code: int
    output: str


@dataclass
class Node:
    """A node, before its first boot: a card without a driver, containerd, nothing of NVIDIA's."""

    folder: Path
    containerd: Path
    toolkit: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (self.bin, self.root / "dev", self.root / "etc/capvco"):
            path.mkdir(parents=True)
        self.write("dev/console", "")
        for name, body in _PROGRAMS.items():
            program = self.bin / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >>"$PLAY/calls"\n{body}\n')
            program.chmod(0o755)
        for name in _OF_THE_SYSTEM:
            found = shutil.which(name)
            assert found, f"{name} is not installed"
            (self.bin / name).symlink_to(found)
        self.play("nvidia-smi", _NVIDIA_SMI).chmod(0o755)
        (self.play_folder / "nvidia-ctk").symlink_to(self.toolkit)
        (self.bin / "containerd").symlink_to(self.containerd)
        self.archive("nvidia-driver-570-server", f"linux-modules-nvidia-570-server-{KERNEL}")
        self.play("archive.version", "570.133.20\n")
        self.play("key", "-----BEGIN PGP PUBLIC KEY BLOCK-----\nx\n")
        self.play("active", "")
        self.cards(1)
        self.ask("570", 1)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def play_folder(self) -> Path:
        return self.folder / "play"

    @property
    def bin(self) -> Path:
        return self.play_folder / "bin"

    @property
    def main(self) -> Path:
        return self.root / "etc/containerd/config.toml"

    @property
    def dropin(self) -> Path:
        return self.root / "etc/containerd/conf.d/99-nvidia.toml"

    def ask(self, driver: str, count: int) -> None:
        """Write the settings as the provider does."""
        self.write("etc/capvco/gpu.env", f"CAPVCO_GPU_DRIVER={driver}\nCAPVCO_GPU_COUNT={count}\n")

    def archive(self, *packages: str) -> None:
        """Say which packages Ubuntu's archive has."""
        self.play("archive", "".join(f"{name}\n" for name in packages))

    def cards(self, count: int, *, visible: int | None = None, bar: str = ASSIGNED) -> None:
        """Put cards on the bus, and say how many the driver will show."""
        for number in range(count):
            device = f"sys/bus/pci/devices/0000:00:{7 + number:02x}.0"
            self.write(f"{device}/vendor", "0x10de\n")
            self.write(f"{device}/class", "0x030200\n")
            self.write(f"{device}/resource", f"{ASSIGNED}\n{bar}\n")
        # Neither a sound device of NVIDIA's nor another maker's card is a GPU of ours.
        self.write("sys/bus/pci/devices/0000:00:20.0/vendor", "0x10de\n")
        self.write("sys/bus/pci/devices/0000:00:20.0/class", "0x040300\n")
        self.write("sys/bus/pci/devices/0000:00:21.0/vendor", "0x1234\n")
        self.write("sys/bus/pci/devices/0000:00:21.0/class", "0x030000\n")
        shown = count if visible is None else visible
        lines = (f"GPU {n}: NVIDIA L4 (UUID: GPU-{n})\n" for n in range(shown))
        self.play("visible", "".join(lines))

    def bind(self, driver: str) -> None:
        """Let a driver hold the first card."""
        target = self.root / "sys/bus/pci/drivers" / driver
        target.mkdir(parents=True)
        (self.root / "sys/bus/pci/devices/0000:00:07.0/driver").symlink_to(target)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the node."""
        return _write(self.root / path, text)

    def play(self, name: str, text: str) -> Path:
        """Write a part that a program plays."""
        return _write(self.play_folder / name, text)

    def played(self, name: str) -> str:
        """Read what a program has noted; empty if nothing."""
        path = self.play_folder / name
        return path.read_text() if path.exists() else ""

    def read(self, path: str) -> str:
        """Read a file of the node; empty if there is none."""
        file = self.root / path
        return file.read_text() if file.exists() else ""

    def toolkit_is_there(self) -> None:
        """Let the image have the container toolkit."""
        (self.bin / "nvidia-ctk").symlink_to(self.toolkit)
        self.play("bin/nvidia-container-runtime", "#!/bin/sh\n").chmod(0o755)
        self.write("usr/bin/nvidia-container-runtime", "#!/bin/sh\n").chmod(0o755)

    def run(self, script: str = "install.sh", *arguments: str) -> Run:
        """Run one of the scripts, or a step alone."""
        env = {
            "PATH": str(self.bin),
            "PLAY": str(self.play_folder),
            "CAPVCO_ROOT": str(self.root),
            "CAPVCO_GPU_RETRY_PAUSE": "0",
            "CAPVCO_CONTAINERD_WAIT": "0",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            **self.settings,
        }
        for path in ("run/capvco", "var/log"):
            (self.root / path).mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["bash", str(SCRIPTS / script), *arguments],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr)

    def dump(self) -> str:
        """Return the effective configuration, as the real containerd reads it."""
        done = subprocess.run(
            [str(self.containerd), "--config", str(self.main), "config", "dump"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
        )
        return done.stdout


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
