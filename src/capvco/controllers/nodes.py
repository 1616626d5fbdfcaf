"""The nodes of workload clusters, as far as their GPUs and labels go.

Read in the background and kept: a reconcile looks at what is known and never waits for a workload
cluster, which may be slow, unreachable or gone. Labels are put back after the same look.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Proposed
from capvco.api.upstream import Node
from capvco.controllers.kinds import NODE, SECRET
from capvco.controllers.node_labels import NodeLabels
from capvco.controllers.template import GPU_RESOURCE
from capvco.runtime.errors import KubeError, Misconfigured
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class Seen(Struct, frozen=True):
    """What was last seen of a workload cluster."""

    gpus: Mapping[str, tuple[str, int]]
    """By provider id: the node's name, and how many GPUs it offers."""
    problem: str = ""
    """Why the nodes cannot be read, in words."""


def changed(before: Seen | None, after: Seen) -> set[str] | None:
    """Return the provider ids of which something else is known; None for all of them."""
    if before is None or before.problem != after.problem:
        return None
    ids = before.gpus.keys() | after.gpus.keys()
    return {one for one in ids if before.gpus.get(one) != after.gpus.get(one)}


Handler = Callable[[Key, set[str] | None], None]
_CALM = 10
"""Intervals between two looks at a cluster without GPUs, of which labels alone are looked at."""


@dataclass
class Nodes:
    """Looks at the nodes of workload clusters, often at those of clusters with GPU machines."""

    kube: Kube
    registry: CollectorRegistry
    clusters: Callable[[], Mapping[Key, bool]]
    """The clusters to look at, namespace and name, and whether they have GPU machines."""
    labels: NodeLabels
    interval: float = 30.0
    timeout: float = 10.0
    clock: Callable[[], float] = time.monotonic
    _handlers: list[Handler] = field(default_factory=list)
    _seen: dict[Key, Seen] = field(default_factory=dict)
    _clients: dict[Key, tuple[bytes, Kube]] = field(default_factory=dict)
    _rest: dict[Key, float] = field(default_factory=dict)
    """Until when a cluster without GPUs is left alone."""

    def get(self, cluster: Key) -> Seen | None:
        """Return what is known of a cluster; None before the first look."""
        return self._seen.get(cluster)

    def on_change(self, handler: Handler) -> None:
        """Call a handler with a cluster, and the provider ids of nodes that offer something else.

        None stands for all of them: the cluster can, or cannot, be read any more.
        """
        self._handlers.append(handler)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                wanted = self.clusters()
                await self._forget({*self._seen, *self._clients, *self._rest} - set(wanted))
                due = {c: gpus for c, gpus in wanted.items() if gpus or self._rested(c)}
                await asyncio.gather(*(self._look(c, gpus=gpus) for c, gpus in due.items()))
                await asyncio.sleep(self.interval)
        finally:
            await self._forget(set(self._clients))

    def _rested(self, cluster: Key) -> bool:
        return self.clock() >= self._rest.get(cluster, 0.0)

    async def _forget(self, clusters: Iterable[Key]) -> None:
        for cluster in clusters:
            self._seen.pop(cluster, None)
            self._rest.pop(cluster, None)
            self.labels.forget(cluster)
            if client := self._clients.pop(cluster, None):
                await client[1].close()

    async def _look(self, cluster: Key, *, gpus: bool) -> None:
        nodes: list[Node] = []
        try:
            async with asyncio.timeout(self.timeout):
                client = await self._client(cluster)
                nodes = await client.list(NODE)
            seen = Seen(offered(nodes))
        except (KubeError, Misconfigured, TimeoutError) as error:
            words = str(error) or f"no answer within {self.timeout:g} s"
            seen = Seen({}, f"the nodes of {cluster} cannot be read: {words}")
        except Exception as error:
            # Others write what is read here; whatever it is, it must not end the manager.
            log.exception("nodes cannot be read", cluster=str(cluster))
            seen = Seen({}, f"the nodes of {cluster} cannot be read: {type(error).__name__}")
        before = self._seen.get(cluster)
        if gpus and seen != before:
            self._seen[cluster] = seen
            for handler in self._handlers:
                handler(cluster, changed(before, seen))
        more = bool(nodes) and await self._put_back(client, cluster, nodes)
        self._rest[cluster] = 0.0 if more else self.clock() + (_CALM - 0.5) * self.interval

    async def _put_back(self, client: Kube, cluster: Key, nodes: list[Node]) -> bool:
        """Put labels back; say whether there is more to do. Whatever goes wrong is logged."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self.labels.put_back(client, cluster, nodes)
        except (KubeError, TimeoutError) as error:
            log.warning("labels cannot be put back", cluster=str(cluster), error=str(error))
        except Exception:
            log.exception("labels cannot be put back", cluster=str(cluster))
        return False

    async def _client(self, cluster: Key) -> Kube:
        secret = await self.kube.get(SECRET, cluster.namespace, f"{cluster.name}-kubeconfig")
        text = secret.data.get("value", b"")
        known = self._clients.get(cluster)
        if known and known[0] == text:
            return known[1]
        # Its calls are not counted with ours to the management cluster.
        client = Kube.parse(text, user_agent="capvco", registry=CollectorRegistry())
        if known:
            await known[1].close()
        self._clients[cluster] = (text, client)
        return client


def offered(nodes: Iterable[Node]) -> dict[str, tuple[str, int]]:
    """Return name and number of allocatable GPUs by provider id."""
    return {
        node.spec.provider_id: (node.metadata.name, _count(node.status.allocatable))
        for node in nodes
        if node.spec.provider_id
    }


def _count(allocatable: Mapping[str, str]) -> int:
    text = allocatable.get(GPU_RESOURCE, "0")
    return int(text) if text.isdecimal() else 0


def gpu_ready(seen: Seen, provider_id: str, count: int) -> Proposed:
    """Return the condition GPUReady of a machine."""

    def not_known(reason: Reason, message: str) -> Proposed:
        return Proposed(ConditionType.GPU_READY, "Unknown", reason, message)

    if seen.problem:
        return not_known(Reason.WORKLOAD_CLUSTER_UNREACHABLE, seen.problem)
    if provider_id not in seen.gpus:
        message = f"no node has the provider id {provider_id} yet"
        return not_known(Reason.NODE_NOT_JOINED, message)
    name, number = seen.gpus[provider_id]
    message = f"the node {name} offers {number} {GPU_RESOURCE}, the machine asked for {count}"
    if number != count:
        return Proposed(ConditionType.GPU_READY, "False", Reason.GPU_NOT_ALLOCATABLE, message)
    return Proposed(ConditionType.GPU_READY, "True", Reason.READY, message)
