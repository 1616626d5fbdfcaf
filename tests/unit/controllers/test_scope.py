"""What one reconcile reads, and what pauses it."""

from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from capvco.api.upstream import PAUSED_ANNOTATION
from capvco.controllers import kinds
from capvco.controllers.scope import Caches, MachineScope, cluster_scope, machine_scope
from capvco.runtime.cache import Cache
from capvco.runtime.errors import Unreachable
from capvco.runtime.kinds import Kind, T
from capvco.runtime.stream import Event, Limits, Listing, Scope
from tests.support.builders import (
    a_cluster,
    a_machine,
    a_vco_cluster,
    a_vco_machine,
    an_owner,
)


class Nowhere:
    """A cluster that cannot be asked: what is in the caches was put there by the test."""

    async def listing(self, kind: Kind[T], scope: Scope, *, latest: bool) -> Listing[T]:
        raise Unreachable(f"{kind} {scope} {latest}")

    def watch(
        self, kind: Kind[T], scope: Scope, *, version: str, limits: Limits
    ) -> AsyncGenerator[Event[T], None]:
        raise Unreachable(f"{kind} {scope} {version} {limits}")


def a_cache(kind: Kind[T], *objects: T) -> Cache[T]:
    cache = Cache(Nowhere(), kind, registry=CollectorRegistry())
    for obj in objects:
        cache.assume(obj)
    return cache


def caches(*, machine: bool = True, cluster: bool = True, vco_cluster: bool = True) -> Caches:
    strangers = a_cluster(namespace="other"), a_vco_cluster(namespace="other")
    return Caches(
        clusters=a_cache(kinds.CLUSTER, strangers[0], *([a_cluster()] if cluster else [])),
        machines=a_cache(
            kinds.MACHINE, a_machine(namespace="other"), *([a_machine()] if machine else [])
        ),
        vco_clusters=a_cache(
            kinds.VCO_CLUSTER, strangers[1], *([a_vco_cluster()] if vco_cluster else [])
        ),
        vco_machines=a_cache(kinds.VCO_MACHINE),
        templates=a_cache(kinds.VCO_MACHINE_TEMPLATE),
    )


def test_everything_is_found() -> None:
    """Through the owner to the Machine, its Cluster and that one's VCOCluster."""
    scope = machine_scope(caches(), a_vco_machine())
    assert scope == MachineScope(a_vco_machine(), a_machine(), a_cluster(), a_vco_cluster())


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_an_owner_of_any_version(version: str) -> None:
    """Owners are found by group and kind."""
    vco_machine = a_vco_machine(owner=an_owner("Machine", "worker-1", version=version))
    assert machine_scope(caches(), vco_machine).machine == a_machine()


def test_the_owner_of_another_group_is_none() -> None:
    """A kind of the same name elsewhere owns nothing here."""
    owner = replace(an_owner("Machine", "worker-1"), api_version="example.org/v1")
    assert machine_scope(caches(), a_vco_machine(owner=owner)).machine is None


def test_the_cluster_is_found_without_the_machine() -> None:
    """Deletion may come after the Machine is gone: the label still leads to the cluster."""
    scope = machine_scope(caches(machine=False), a_vco_machine())
    assert scope.machine is None
    assert (scope.cluster, scope.vco_cluster) == (a_cluster(), a_vco_cluster())


def test_what_is_missing_is_none() -> None:
    """Nothing is taken from another namespace instead."""
    nothing = caches(machine=False, cluster=False, vco_cluster=False)
    assert machine_scope(nothing, a_vco_machine()) == MachineScope(
        a_vco_machine(), None, None, None
    )
    assert machine_scope(caches(vco_cluster=False), a_vco_machine()).vco_cluster is None
    assert cluster_scope(nothing, a_vco_cluster()).cluster is None
    assert cluster_scope(caches(), a_vco_cluster()).cluster == a_cluster()


def test_a_cluster_without_infrastructure() -> None:
    """A Cluster may have no reference yet."""
    held = caches()
    held.clusters.assume(
        replace(
            a_cluster(infrastructure=""),
            metadata=replace(a_cluster().metadata, resource_version="2"),
        )
    )
    assert machine_scope(held, a_vco_machine()).vco_cluster is None


def test_pause() -> None:
    """The Cluster's spec or the object's own annotation, whatever its value; nothing else."""
    assert machine_scope(caches(), a_vco_machine()).paused == ""
    assert PAUSED_ANNOTATION in machine_scope(caches(), a_vco_machine(paused=True)).paused
    denied = a_vco_machine(annotations={PAUSED_ANNOTATION: "false"})
    assert PAUSED_ANNOTATION in machine_scope(caches(), denied).paused
    held = caches(cluster=False)
    held.clusters.assume(a_cluster(paused=True))
    assert machine_scope(held, a_vco_machine()).paused == "the Cluster prod has spec.paused"
    assert cluster_scope(held, a_vco_cluster()).paused == "the Cluster prod has spec.paused"
    assert PAUSED_ANNOTATION in cluster_scope(caches(), a_vco_cluster(paused=True)).paused
    assert (
        PAUSED_ANNOTATION in cluster_scope(caches(cluster=False), a_vco_cluster(paused=True)).paused
    )
