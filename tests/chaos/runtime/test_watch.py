"""The cache behind a connection that is cut and frozen: in the end it is as the cluster is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from capvco.runtime.cache import Cache, Change, Timing
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube
from kubelocal import LocalCluster
from tests.envtest.runtime.world import CONFIG_MAPS, ConfigMap, connect, named, through
from tests.support.proxy import Proxy

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

QUICK = Timing(silence=4)


@dataclass
class World:
    """A cluster, a direct way to it, and a cache that knows it through a bad connection only."""

    direct: Kube
    namespace: str
    proxy: Proxy
    cache: Cache[ConfigMap]
    registry: CollectorRegistry
    deleted: set[str]

    async def create(self, *names: str, data: str = "x") -> list[ConfigMap]:
        bodies = [named(name, data={"x": data}) for name in names]
        return [await self.direct.create(CONFIG_MAPS, self.namespace, body) for body in bodies]

    async def delete(self, name: str) -> None:
        obj = await self.direct.get(CONFIG_MAPS, self.namespace, name)
        await self.direct.delete(CONFIG_MAPS, obj)

    async def change(self, name: str, data: str) -> None:
        obj = await self.direct.get(CONFIG_MAPS, self.namespace, name)
        await self.direct.apply(CONFIG_MAPS, obj, {"data": {"x": data}})

    async def equal(self, seconds: float) -> None:
        """Wait until the cache holds exactly what the cluster does."""
        wanted = {obj.metadata.name: obj for obj in await self._live()}
        held: dict[str, ConfigMap] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    held = {obj.metadata.name: obj for obj in self.cache.list()}
                    if held == wanted:
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            missing, extra = wanted.keys() - held.keys(), held.keys() - wanted.keys()
            stale = [n for n in wanted.keys() & held.keys() if wanted[n] != held[n]]
            pytest.fail(f"after {seconds} s: {missing=} {extra=} {stale=} {self.cache.problem=}")

    async def _live(self) -> list[ConfigMap]:
        return await self.direct.list(CONFIG_MAPS, self.namespace)

    def lists(self) -> float | None:
        labels = {"kind": "configmaps"}
        return self.registry.get_sample_value("capvco_cache_lists_total", labels)


@asynccontextmanager
async def a_world(cluster: LocalCluster, timing: Timing) -> AsyncIterator[World]:
    namespace = await asyncio.to_thread(cluster.create_namespace, "chaos")
    registry = CollectorRegistry()
    port = urlsplit(cluster.url).port
    assert port is not None
    deleted: set[str] = set()

    def note(change: Change[ConfigMap]) -> None:
        if change.new is None and change.old is not None:
            deleted.add(change.old.metadata.name)

    async with (
        connect(cluster.kubeconfig) as direct,
        Proxy("127.0.0.1", port) as proxy,
        Kube.parse(
            through(cluster.kubeconfig, proxy.port), user_agent="chaos", registry=registry
        ) as kube,
    ):
        cache = Cache(kube, CONFIG_MAPS, namespace=namespace, timing=timing, registry=registry)
        cache.on_change(note)
        world = World(direct, namespace, proxy, cache, registry, deleted)
        await world.create("stays", "changes", "goes")
        running = asyncio.ensure_future(cache.run())
        try:
            await world.equal(60)
            yield world
        finally:
            running.cancel()
            await asyncio.wait({running})


async def test_plain(control_plane: LocalCluster) -> None:
    """Creations, changes and deletions arrive on one watch."""
    async with a_world(control_plane, Timing()) as world:
        await world.create("new")
        await world.change("changes", "y")
        await world.delete("goes")
        await world.equal(30)
        assert world.deleted == {"goes"}
        assert world.lists() == 1


async def test_cut_for_five_seconds_with_a_deletion_meanwhile(control_plane: LocalCluster) -> None:
    """The watch goes on where it was, and reports what happened in between."""
    async with a_world(control_plane, Timing()) as world:
        await world.proxy.cut()
        await world.delete("goes")
        await world.change("changes", "y")
        await world.create("new")
        await asyncio.sleep(5)  # how long the cut lasts is the point of this test
        assert world.cache.get(Key(world.namespace, "goes")) is not None
        await world.proxy.mend()
        await world.equal(30)
        assert world.deleted == {"goes"}
        assert world.lists() == 1


async def test_cut_restart_and_compaction_with_a_deletion_meanwhile(
    control_plane: LocalCluster,
) -> None:
    """A true 410: the cache lists again, and finds the deletion by comparing."""
    async with a_world(control_plane, Timing()) as world:
        await world.proxy.cut()
        await world.delete("goes")
        await world.change("changes", "y")
        await world.create("new")
        await asyncio.to_thread(control_plane.restart_apiserver)
        await asyncio.to_thread(control_plane.compact_etcd)
        await world.proxy.mend()
        await world.equal(30)
        assert world.deleted == {"goes"}
        assert (world.lists() or 0) > 1
        await world.delete("new")
        await world.equal(30)


async def half_open(cluster: LocalCluster, timing: Timing, seconds: float) -> None:
    async with a_world(cluster, timing) as world:
        assert world.proxy.freeze() > 0
        await world.delete("goes")
        await world.change("changes", "y")
        await world.create("new")
        await world.equal(seconds)
        assert world.deleted == {"goes"}


async def test_half_open_connection(control_plane: LocalCluster) -> None:
    """A connection that died without a word is given up after the silence that is allowed."""
    await half_open(control_plane, QUICK, 30)


@pytest.mark.full
async def test_half_open_connection_with_the_real_times(control_plane: LocalCluster) -> None:
    """The same with the times a manager has: blind for less than 90 s."""
    await half_open(control_plane, Timing(), 90)


async def test_an_object_of_600_kilobytes(control_plane: LocalCluster) -> None:
    """Large objects come through list and watch, also when the connection dies in the middle."""
    async with a_world(control_plane, Timing()) as world:
        for round_ in range(3):
            await world.create(f"large-{round_}", data=str(round_) * 600_000)
            await world.proxy.cut()
            await world.proxy.mend()
        await world.change("large-1", "z" * 600_000)
        await world.delete("large-0")
        await world.equal(60)


async def test_an_apiserver_that_is_away_for_a_while(control_plane: LocalCluster) -> None:
    """A restart of the apiserver alone needs nobody's help either."""
    async with a_world(control_plane, Timing()) as world:
        await asyncio.to_thread(control_plane.restart_apiserver)
        await world.delete("goes")
        await world.create("new")
        await world.equal(30)
