"""The command `kubelocal`: a management cluster on this machine for a person at a terminal."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from kubelocal import manifests
from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import ALL_TOOLS, CONTROL_PLANE_TOOLS, KUBECTL
from kubelocal.cluster import LocalCluster
from kubelocal.errors import KubelocalError, StartFailed, UsageError
from kubelocal.options import Options
from kubelocal.processes import end, wait_gone
from kubelocal.progress import for_console
from kubelocal.store import Store, default_root
from kubelocal.workspace import Workspace, default_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130
_DOWN_SECONDS = 60.0

app = App(
    name="kubelocal",
    help=(
        "A real Cluster API management cluster on this machine, without containers.\n\n"
        "etcd, kube-apiserver, kube-controller-manager, `clusterctl init` and the Cluster API "
        "managers run as plain processes on free ports of 127.0.0.1. Tools come from "
        "KUBEBUILDER_ASSETS, the cache, PATH, the official archives, or are built from Go modules "
        "(Go 1.26 or newer), in this order.\n\n"
        "Exit codes: 0 done, 1 an internal error, 2 wrong usage, 3 Go is needed, 4 a build failed, "
        "5 a download failed, 6 the directory is in use, 7 the cluster did not start, 8 a command "
        "run in it failed, 130 interrupted."
    ),
    help_format="plaintext",
    version_flags=(),
    suppress_keyboard_interrupt=False,  # `run` says what it means here
)

Directory = Annotated[
    Path | None,
    Parameter(help="State of the cluster. Default: $XDG_STATE_HOME/kubelocal.", show_default=False),
]
Cache = Annotated[
    Path | None,
    Parameter(
        help="Where tools are kept. Default: $KUBELOCAL_CACHE, $XDG_CACHE_HOME/kubelocal.",
        show_default=False,
    ),
]
From = Annotated[Source, Parameter(name="--source", help="Where missing tools may come from.")]
Capi = Annotated[bool, Parameter(help="Install Cluster API with clusterctl and run its managers.")]

_console = Console(stderr=True)
_output = Console(soft_wrap=True, highlight=False)


@app.command
def up(  # noqa: PLR0913 - one parameter for each flag
    *,
    directory: Directory = None,
    capi: Capi = True,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Also write the administrator's kubeconfig here.")
    ] = None,
    detach: Annotated[bool, Parameter(help="Return when all is ready and let it run.")] = False,
    source: From = Source.AUTO,
    cache: Cache = None,
) -> None:
    """Start a cluster and keep it until Ctrl-C; prints the KUBECONFIG to use."""
    options = Options(
        directory=directory or default_directory(os.environ),
        capi=capi,
        source=source,
        cache=cache,
        progress=for_console(_console),
        keep=detach,
    )
    cluster = LocalCluster(options)
    with _ends_on_signals() as ended:
        try:
            cluster.start()
            if capi:
                cluster.init()
            shown = _publish(cluster, kubeconfig)
            if detach:
                cluster.leave()
                _output.print(f"export KUBECONFIG={shown}")
                return
            with suppress(KeyboardInterrupt):  # from here on it is how one says "enough"
                _output.print(f"export KUBECONFIG={shown}")
                _console.print("Ctrl-C ends the cluster.")
                _watch(cluster, ended)
        finally:
            cluster.stop()


def _publish(cluster: LocalCluster, kubeconfig: Path | None) -> Path:
    if kubeconfig is None:
        return cluster.kubeconfig
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    kubeconfig.touch(mode=0o600)
    shutil.copyfile(cluster.kubeconfig, kubeconfig)
    return kubeconfig.absolute()


def _watch(cluster: LocalCluster, ended: threading.Event) -> None:
    """Wait for a signal; a process that ends by itself meanwhile is an error."""
    started = {process.name: process for process in cluster.processes}
    while not ended.wait(1.0):
        gone = started.keys() - {process.name for process in cluster.processes}
        for name in gone:
            raise StartFailed(f"{name} has ended by itself; its output: {started[name].log}")


@contextmanager
def _ends_on_signals() -> Iterator[threading.Event]:
    """Turn SIGTERM and SIGHUP into what Ctrl-C does, and a second Ctrl-C into nothing."""
    ended = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if not ended.is_set():
            ended.set()
            raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command
def down(*, directory: Directory = None) -> None:
    """End the cluster in a directory, whoever started it. Idempotent."""
    space = Workspace(directory or default_directory(os.environ))
    owner = space.owner()
    if owner is not None and owner.pid != os.getpid():
        os.kill(owner.pid, signal.SIGTERM)
        if not wait_gone(owner, _DOWN_SECONDS):
            end(owner, grace=0)
    ended = space.clear()
    names = ", ".join(("its owner", *ended) if owner else ended)
    _console.print(f"ended: {names}" if names else f"nothing runs in {space.directory}")


@app.command
def status(*, directory: Directory = None) -> None:
    """Show what runs in a directory."""
    space = Workspace(directory or default_directory(os.environ))
    living = space.records.living()
    if not living:
        _output.print(f"nothing runs in {space.directory}")
        return
    for name, identity in living.items():
        log = "" if name == "owner" else space.part("logs") / f"{name}.log"
        _output.print(f"{name:36}{identity.pid:>9}  {log}")
    _output.print(f"export KUBECONFIG={space.kubeconfig}")


@app.command
def fetch(*, capi: Capi = True, source: From = Source.AUTO, cache: Cache = None) -> None:
    """Get the tools and manifests only, so that a later start needs neither network nor Go."""
    store = Store(cache or default_root(os.environ))
    progress = for_console(_console)
    binaries = Binaries(store, os.environ, source, progress)
    with _ends_on_signals():
        found = binaries.get(ALL_TOOLS if capi else CONTROL_PLANE_TOOLS)
        if capi:
            manifests.get(store, found[KUBECTL.name], os.environ, progress)
    for name, path in found.items():
        _output.print(f"{name}\t{path}")


@app.command
def clean(*, directory: Directory = None, cache: Cache = None) -> None:
    """Remove the cache, and the state of a cluster that does not run."""
    space = Workspace(directory or default_directory(os.environ))
    if space.records.living():
        raise UsageError(
            f"a cluster runs in {space.directory}: end it with `kubelocal down` before"
        )
    if space.is_ours():
        shutil.rmtree(space.directory)
        _console.print(f"removed {space.directory}")
    store = Store(cache or default_root(os.environ))
    store.clean()
    _console.print(f"removed the tools in {store.root}")


def run(arguments: list[str] | None = None) -> int:
    """Run the command; give its exit code."""
    try:
        app(arguments, exit_on_error=False, result_action="return_value")
    except CycloptsError:  # it has printed itself
        return UsageError.exit_code
    except KubelocalError as error:
        _console.print(f"kubelocal: {error}", style="red", markup=False, highlight=False)
        return error.exit_code
    except OSError as error:  # a full disk, a folder one may not write to
        _console.print(f"kubelocal: {error}", style="red", markup=False, highlight=False)
        return KubelocalError.exit_code
    except KeyboardInterrupt:
        _console.print("interrupted")
        return INTERRUPTED
    return 0
