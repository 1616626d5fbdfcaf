"""A real management cluster on this machine: what the demo, the tests and the command use."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kubelocal import manifests
from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import (
    ALL_TOOLS,
    APISERVER,
    CLUSTERCTL,
    CONTROL_PLANE_TOOLS,
    ETCD,
    KUBECTL,
)
from kubelocal.clusterapi import ClusterApi, request_token
from kubelocal.controlplane import ControlPlane
from kubelocal.errors import ClusterctlError, KubectlError, UsageError
from kubelocal.ports import free_ports
from kubelocal.store import Store, default_root
from kubelocal.supervisor import Process, Supervisor
from kubelocal.tie import launched
from kubelocal.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from kubelocal.api import Object
    from kubelocal.catalogue import Tool
    from kubelocal.errors import CommandFailed
    from kubelocal.options import Options, Provider
    from kubelocal.ports import FindPorts

_COMMAND_SECONDS: Final = 180.0
_TIMED_OUT: Final = 124


class LocalCluster:
    """etcd, kube-apiserver, kube-controller-manager and, after `init`, Cluster API.

    Use it in a `with` block, or call `start` and `stop`. Every method blocks and may be called from
    any thread. If the process that started it dies, however it dies, the cluster's processes die
    too; a later start in the same directory ends whatever might still be left.
    """

    def __init__(self, options: Options, *, find_ports: FindPorts = free_ports) -> None:
        self.options = options
        self._find_ports = find_ports
        self._space = Workspace(options.directory)
        self._store = Store(options.cache or default_root(os.environ))
        self._lock = threading.RLock()
        self._binaries: dict[str, Path] = {}
        self._supervisor: Supervisor | None = None
        self._plane: ControlPlane | None = None
        self._capi: ClusterApi | None = None
        self._initialised = False
        self._guests: list[str] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # Start and stop

    def start(self) -> None:
        """Get the tools, start everything, wait until it is ready.

        On any failure, KeyboardInterrupt included, nothing of it is left running. Raises NeedsGo,
        BuildFailed or DownloadFailed for the tools, DirectoryInUse, StartFailed.
        """
        with self._lock, ExitStack() as undo:
            if platform.system() != "Linux":
                raise UsageError("kubelocal runs on Linux only: it relies on /proc and prctl")
            if self._supervisor is not None:
                raise UsageError(f"the cluster in {self.directory} has been started already")
            if self.options.nodes and not self.options.controller_manager:
                raise UsageError("nodes=True needs controller_manager=True: it signs certificates")
            undo.callback(self._stop)
            self._get_tools()
            self._space.acquire()
            self._start_processes()
            undo.pop_all()

    def _get_tools(self) -> None:
        options = self.options
        tools: Sequence[Tool] = ALL_TOOLS if options.capi else CONTROL_PLANE_TOOLS
        if not options.controller_manager:
            if options.capi:
                raise UsageError(
                    "capi=True needs controller_manager=True: its roles are aggregated"
                )
            tools = (ETCD, APISERVER, KUBECTL)
        source = Source(options.source)
        binaries = Binaries(self._store, os.environ, source, options.progress)
        self._binaries = binaries.get(tools)

    def _start_processes(self) -> None:
        options, began = self.options, time.monotonic()
        supervisor = Supervisor(self._space.records, self._space.part("logs"), tie=not options.keep)
        self._supervisor = supervisor
        plane = ControlPlane(
            self._space,
            supervisor,
            self._binaries,
            self._process_env(),
            controller_manager=options.controller_manager,
            nodes=options.nodes,
            hosts=options.hosts,
            find_ports=self._find_ports,
        )
        self._plane = plane
        plane.start()
        if options.controller_manager:
            plane.start_controller_manager()
        if options.capi:
            kubectl = self._binaries[KUBECTL.name]
            found = manifests.get(self._store, kubectl, os.environ, options.progress)
            self._capi = ClusterApi(
                self._space,
                supervisor,
                plane,
                self._binaries,
                self._process_env(),
                found,
                find_ports=self._find_ports,
            )
        options.progress.say(f"control plane ready after {time.monotonic() - began:.1f} s")

    def stop(self) -> None:
        """Stop the managers, the control plane, etcd, in this order. Idempotent."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        with ExitStack() as steps:  # last first; each runs whatever the ones before it did
            steps.callback(self._space.release)
            if self._supervisor is not None:
                steps.callback(self._supervisor.close, kill=True)
            if self._plane is not None:
                steps.callback(self._plane.stop)
            if self._capi is not None:
                steps.callback(self._capi.stop)
            if self._supervisor is not None:
                steps.callback(self._supervisor.stop, *self._guests)
        self._guests.clear()
        self._supervisor = self._plane = self._capi = None
        self._initialised = False

    def leave(self) -> None:
        """Let the cluster run on without this process; needs `Options(keep=True)`.

        `kubelocal down --directory …`, or the next start in the directory, ends it.
        """
        with self._lock:
            if not self.options.keep:
                raise UsageError("leave() needs Options(keep=True): the processes are tied to us")
            self._running.close(kill=False)
            self._space.release()
            self._supervisor = self._plane = self._capi = None

    # What a user of the cluster needs

    @property
    def directory(self) -> Path:
        """Where everything of the cluster lies."""
        return self._space.directory

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._space.kubeconfig

    @property
    def url(self) -> str:
        """Address of the API server; stays the same over its restarts."""
        return self._started.url

    @property
    def ca_pem(self) -> str:
        """The authority that has signed the API server's certificate."""
        return self._started.ca_pem

    @property
    def processes(self) -> tuple[Process, ...]:
        """What runs now, in the order of its start."""
        return () if self._supervisor is None else self._supervisor.processes

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - as subprocess.run names it
        timeout: float = _COMMAND_SECONDS,
    ) -> str:
        """Run kubectl as the administrator; give its output; raises KubectlError."""
        command = (str(self._binary(KUBECTL)), *args)
        return self._command(command, input, timeout, KubectlError)

    def apply(self, text: str) -> str:
        """Apply YAML, server-side; raises KubectlError with what was refused."""
        return self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)

    def clusterctl(self, *args: str) -> str:
        """Run clusterctl with this cluster's own configuration; raises ClusterctlError."""
        if self._capi is None:
            raise UsageError("clusterctl needs Options(capi=True) and a started cluster")
        config = ("--config", str(self._capi.config)) if self._capi.config.exists() else ()
        command = (str(self._binary(CLUSTERCTL)), *args, *config)
        return self._command(command, None, _COMMAND_SECONDS, ClusterctlError)

    def init(self, providers: Sequence[Provider] = ()) -> None:
        """Run `clusterctl init` with core, kubeadm and these; start the CAPI managers; wait.

        Once per cluster. The given providers' managers are the caller's to run.
        """
        with self._lock:
            if self._capi is None:
                raise UsageError("init() needs Options(capi=True) and a started cluster")
            if self._initialised:
                raise UsageError(
                    f"init() has been called for the cluster in {self.directory} already: "
                    "start it anew first"
                )
            began = time.monotonic()
            self._initialised = True
            self._capi.init(providers, self.clusterctl)
            self.options.progress.say(
                f"Cluster API ready after another {time.monotonic() - began:.1f} s"
            )

    def create_namespace(self, prefix: str) -> str:
        """Make a namespace whose name begins so and is nobody else's; give the name."""
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"generateName": f"{prefix.removesuffix('-')}-"},
        }
        made = self._started.api.create("/api/v1/namespaces", body)
        return str(made["metadata"]["name"])

    def service_account_kubeconfig(self, namespace: str, name: str, path: Path) -> Path:
        """Write a kubeconfig for a ServiceAccount that exists; give the path.

        The token comes from the API server (TokenRequest) and is good for a year.
        """
        token = request_token(self._started.api, namespace, name)
        return self._started.write_token_kubeconfig(path, name, namespace, token)

    def read(self, path: str) -> Object:
        """Give the object or list at an API path, as the administrator; raises Refused."""
        return self._started.api.get(path)

    # Programs of the caller's that belong to the cluster

    def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool],
        seconds: float = 30.0,
    ) -> Process:
        """Run a program as one of the cluster's processes; returns when `ready()` is true.

        It has a log, dies with this process, ends before the cluster does, and is ended by the next
        start in the directory should it ever be left. The program is named by its absolute path.
        Raises StartFailed, with the end of its log, if it ends or is not ready in time.
        """
        supervisor = self._running
        if name in self._guests or any(p.name == name for p in supervisor.processes):
            raise UsageError(f"a process named {name} runs already")
        self._guests.append(name)
        supervisor.start(name, command, self._process_env() | dict(env or {}))
        try:
            supervisor.wait(name, ready, seconds)
        except BaseException:  # also an interrupt: what did not get ready is not left running
            self.end(name)
            raise
        return next(p for p in supervisor.processes if p.name == name)

    def end(self, name: str, *, kill: bool = False) -> None:
        """End a program that `run` started; with `kill` by SIGKILL, without any warning."""
        if name in self._guests:
            self._running.stop(name, grace=0.0 if kill else 10.0, kill=kill)
            self._guests.remove(name)

    # For tests of what happens when things break

    def stop_apiserver(self) -> None:
        """Stop the API server and leave the rest running. Idempotent."""
        with self._lock:
            self._started.stop_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server again, on the same port; returns when it is ready."""
        with self._lock:
            self._started.start_apiserver()

    def restart_apiserver(self) -> None:
        """Stop and start the API server; returns when it is ready."""
        with self._lock:
            self.stop_apiserver()
            self.start_apiserver()

    def compact_etcd(self) -> int:
        """Compact etcd up to its present revision, so that older watches end in 410 Gone.

        Gives the revision. A running API server still answers from its own cache: restart it too.
        """
        return self._started.compact_etcd()

    # Inside

    @property
    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise UsageError(f"the cluster in {self.directory} is not started")
        return self._supervisor

    @property
    def _started(self) -> ControlPlane:
        if self._plane is None:
            raise UsageError(f"the cluster in {self.directory} is not started")
        return self._plane

    def _binary(self, tool: Tool) -> Path:
        if tool.name not in self._binaries:
            raise UsageError(f"{tool.name} is not at hand: start the cluster first")
        return self._binaries[tool.name]

    def _process_env(self) -> dict[str, str]:
        """Give the environment of everything run here: nothing of the user's home is in reach."""
        home = self._space.part("home")
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),  # noqa: S108 - the system's own default
            "LANG": "C.UTF-8",
        }

    def _command_env(self) -> dict[str, str]:
        return self._process_env() | {
            "KUBECONFIG": str(self.kubeconfig),
            "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
            "CLUSTER_TOPOLOGY": "true",
            "GOPROXY": "off",
        }

    def _command(
        self,
        command: tuple[str, ...],
        text: str | None,
        seconds: float,
        error: type[CommandFailed],
    ) -> str:
        short = (command[0].rpartition("/")[2], *command[1:])
        try:
            done = subprocess.run(
                launched(command),
                input=text or "",
                env=self._command_env(),
                cwd=self._space.directory,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise error(short, _TIMED_OUT, "", f"still running after {seconds:.0f} s") from late
        if done.returncode != 0:
            raise error(short, done.returncode, done.stdout, done.stderr)
        return done.stdout
