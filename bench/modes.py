"""The three benchmarks: the provider alone, under Cluster API, and at rest."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench import objects
from bench.results import Phase, Run
from bench.stage import Setting, Stage
from bench.timeline import thinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATIENCE = 180.0
_HANDS = 8
"""Threads that create objects: enough that the load is not what is measured."""
_POLL = 0.2
_STEP = 0.25
"""Seconds between points of the picture, at least."""


def provider(count: int, setting: Setting) -> Run:
    """Make machines by hand, as Cluster API would, and take them away again."""
    with _stage(setting, capi=False) as stage:
        _own_cluster(stage)
        stage.watch_machines()
        create = stage.measure("create", count, lambda: _up(stage, count, "machine"))
        delete = stage.measure("delete", count, lambda: _down(stage))
        return _run("provider", count, (create, delete), stage)


def capi(count: int, setting: Setting) -> Run:
    """Scale a MachineDeployment up and to nothing, Cluster API's real managers at work."""
    with _stage(setting, capi=True) as stage:
        _pool(stage)
        stage.watch_machines()
        create = stage.measure("create", count, lambda: _scale(stage, count))
        delete = stage.measure("delete", count, lambda: _scale(stage, 0))
        return _run("capi", count, (create, delete), stage)


def idle(counts: Sequence[int], seconds: float, setting: Setting) -> Run:
    """Look on while nothing happens, with more and more machines.

    Nothing means nothing: no node that is awaited, which would never come here.
    """
    phases: list[Phase] = []
    with _stage(setting, capi=False) as stage:
        _own_cluster(stage, still=True)
        stage.watch_machines()
        for count in sorted(counts):
            _up(stage, count, f"of-{count}", still=True)
            stage.measure("settle", count, lambda: None)
            phases.append(stage.measure("idle", count, lambda: time.sleep(seconds)))
        _down(stage)
        return _run("idle", max(counts), tuple(phases), stage)


@contextmanager
def _stage(setting: Setting, *, capi: bool) -> Iterator[Stage]:
    """Give a stage with a manager at work, in a folder of its own that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="capvco-bench-") as folder,
        Stage.open(Path(folder) / "cluster", setting, capi=capi) as stage,
    ):
        stage.start_manager()
        try:
            yield stage
        except Exception as error:
            error.add_note(stage.last_words())
            raise
        stage.end_manager()


def _run(what: str, count: int, phases: tuple[Phase, ...], stage: Stage) -> Run:
    breaches = stage.cloud.control.breaches()
    return Run(
        what=what,
        machines=count,
        phases=phases,
        series=thinned(stage.timeline.points, _STEP),
        held=stage.cloud.control.ledger().totals.held,
        breaches=len(breaches.client) + len(breaches.simulator),
    )


def _own_cluster(stage: Stage, *, still: bool = False) -> None:
    """Make a Cluster and say in its status what Cluster API would say."""
    kube = stage.kube
    owner = kube.create(objects.path("clusters"), objects.cluster(still=still))
    kube.create(objects.path("vcoclusters"), objects.vco_cluster(owner))
    _await_cluster(stage, "vcoclusters", "provisioned")
    status = {"status": {"initialization": {"infrastructureProvisioned": True}}}
    kube.merge(f"{objects.path('clusters', objects.CLUSTER)}/status", status)


def _pool(stage: Stage) -> None:
    kube = stage.kube
    kube.create(objects.path("clusters"), objects.cluster())
    kube.create(objects.path("vcoclusters"), objects.vco_cluster())
    kube.create(objects.path("vcomachinetemplates"), objects.template())
    kube.create(objects.path("machinedeployments"), objects.pool())
    _await_cluster(stage, "clusters", "infrastructureProvisioned")


def _await_cluster(stage: Stage, plural: str, word: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        found = stage.kube.get(objects.path(plural, objects.CLUSTER)).get("status", {})
        if found.get("initialization", {}).get(word):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{plural}: no {word} after {_PATIENCE:.0f} s: {found}")
        time.sleep(_POLL)


def _up(stage: Stage, count: int, prefix: str, *, still: bool = False) -> None:
    """Make machines until there are so many, and wait until all are provisioned."""
    missing = count - stage.timeline.existing

    def make(number: int) -> None:
        machine = objects.machine(f"{prefix}-{number:05d}")
        owner = stage.kube.create(objects.path("machines"), machine)
        stage.kube.create(objects.path("vcomachines"), objects.vco_machine(owner, still=still))

    with ThreadPoolExecutor(_HANDS) as hands:
        list(hands.map(make, range(missing)))
    _await_machines(stage, count)


def _await_machines(stage: Stage, count: int) -> None:
    stage.timeline.wait(
        f"{count} machines",
        lambda line: line.provisioned == line.existing == count,
        patience=_PATIENCE,
    )


def _down(stage: Stage) -> None:
    stage.kube.delete_all(objects.path("vcomachines"))
    _await_machines(stage, 0)


def _scale(stage: Stage, count: int) -> None:
    path = objects.path("machinedeployments", objects.POOL)
    stage.kube.merge(path, {"spec": {"replicas": count}})
    _await_machines(stage, count)
