"""Become, or watch over, another program: run as a script in between, standard library only.

    python -I -S launch.py '{"parent": 1, "record": "…", "tie": true, "watch": false}' PROGRAM ARGS…

It exists because these four things must happen in the child itself, before the program runs:
- die with the parent (`PR_SET_PDEATHSIG`), also when the parent is killed by SIGKILL;
- notice that the parent had died before that was set;
- leave a record of the process, so that there is no moment at which it runs unrecorded;
- with `watch`, stay in between and end the whole process group when the parent goes: a program with
  children of its own (`go build`) would otherwise leave them behind.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def _die_with_parent(parent: int, number: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the kernel was told
        sys.exit(1)


def _write_record(path: str) -> None:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib triples this script's start time
        start = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:  # noqa: PTH123 - as above
        boot = file.read().strip()
    record = {"pid": os.getpid(), "start": start, "boot": boot}
    with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        file.write(json.dumps(record))
    os.replace(f"{path}.new", path)  # noqa: PTH105 - as above


def _watch(command: list[str]) -> int:
    def end(_number: int, _frame: object) -> None:
        os.killpg(0, signal.SIGKILL)  # this process is in the group too, so nothing follows

    signal.signal(signal.SIGTERM, end)
    return subprocess.call(command)


def main() -> None:
    """Do as the first argument says, then run the rest."""
    how, command = json.loads(sys.argv[1]), sys.argv[2:]
    if how["tie"]:
        _die_with_parent(how["parent"], signal.SIGTERM if how["watch"] else signal.SIGKILL)
    if how["record"]:
        _write_record(how["record"])
    if how["watch"]:
        sys.exit(_watch(command))
    os.execv(command[0], command)  # noqa: S606 - the whole point: the same pid, no shell


if __name__ == "__main__":
    main()
