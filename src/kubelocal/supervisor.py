"""The cluster's processes: started tied to this one, logged, recorded, stopped by group."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubelocal.errors import StartFailed
from kubelocal.tie import launched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kubelocal.processes import Records

_POLL_SECONDS: Final = 0.05
_TAIL_BYTES: Final = 16_384


@dataclass(frozen=True)
class Process:
    """One running process of a cluster."""

    name: str
    pid: int
    log: Path


class Supervisor:
    """Starts and stops processes by name. Safe to call from several threads.

    With `tie` the kernel kills them when this process dies. The kernel really watches the *thread*
    that started them, hence the one thread that starts all and lives as long as the supervisor.
    """

    def __init__(self, records: Records, logs: Path, *, tie: bool) -> None:
        self._records = records
        self._logs = logs
        self._tie = tie
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="kubelocal-start")
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a process; its output is appended to `<name>.log`."""
        self._starter.submit(self._spawn, name, list(command), dict(env)).result()

    def _spawn(self, name: str, command: list[str], env: dict[str, str]) -> None:
        # Noted here, in the starting thread: an interrupted caller must not lose a process.
        with self.log(name).open("ab") as log, self._lock:
            self._running[name] = subprocess.Popen(
                launched(command, record=self._records.path(name), tie=self._tie),
                env=env,
                cwd=self._logs,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """Give the file with the output of the process."""
        return self._logs / f"{name}.log"

    def exit_code(self, name: str) -> int | None:
        """Say how the process ended; None while it runs."""
        with self._lock:
            popen = self._running.get(name)
        return None if popen is None else popen.poll()

    @property
    def processes(self) -> tuple[Process, ...]:
        """Those that run now, in the order of their start."""
        with self._lock:
            running = dict(self._running)
        return tuple(
            Process(name, popen.pid, self.log(name))
            for name, popen in running.items()
            if popen.poll() is None
        )

    def stop(self, *names: str, grace: float = 10.0, kill: bool = False) -> None:
        """End these processes together: SIGTERM, SIGKILL after `grace` seconds. Idempotent.

        With `kill` it is SIGKILL at once.
        """
        with self._lock:
            ending = {name: self._running.pop(name) for name in names if name in self._running}
        for popen in ending.values():
            _signal(popen, signal.SIGKILL if kill else signal.SIGTERM)
        deadline = time.monotonic() + grace
        for name, popen in ending.items():
            try:
                popen.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                _signal(popen, signal.SIGKILL)
                popen.wait()
            self._records.forget(name)

    def close(self, *, kill: bool) -> None:
        """Give up the starting thread; with `kill`, whatever still runs is ended first."""
        self._starter.submit(lambda: None).result()  # a start under way is finished first
        if kill:
            with self._lock:
                names = tuple(self._running)
            self.stop(*names, grace=2)
        self._starter.shutdown()

    def wait(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()`; raises StartFailed, with the log's tail, on its end or too late.

        The message of a process that could not bind its port says so: see `lost_port`.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            code = self.exit_code(name)
            if code is not None:
                raise StartFailed(f"{name} ended with exit code {code}.\n{self._tail(name)}")
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"{name} was not ready after {seconds:.0f} s.\n{self._tail(name)}"
                )
            time.sleep(_POLL_SECONDS)

    def _tail(self, name: str, lines: int = 15) -> str:
        try:
            text = self.log(name).read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
        except OSError:
            text = ""
        last = "\n".join(f"  | {line[:400]}" for line in text.splitlines()[-lines:])
        return f"The end of {self.log(name)}:\n{last or '  (empty)'}"


def lost_port(error: StartFailed) -> bool:
    """Whether the process ended because somebody else has bound its port meanwhile."""
    return "address already in use" in str(error)


def _signal(popen: subprocess.Popen[bytes], number: int) -> None:
    if popen.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, number)
