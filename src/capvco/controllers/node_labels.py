"""The labels of nodes that exist: what is missing is put back, without ever costing another label.

A node gets its labels when it registers, from its user data. Later somebody may have taken one
away, or the node may be older than a label. Where a workload cluster refuses a label (a policy of
its own, say), the others are set all the same, and the refused one is left alone for a while.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from capvco.api.upstream import Node
from capvco.api.v1beta1.machine import VCOMachine
from capvco.controllers.kinds import NODE
from capvco.runtime.errors import Forbidden, Gone, Invalid
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube
from capvco.services.labels import node_labels, to_put_back

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

MANAGER = "capvco-node-labels"
"""Field manager of the labels that were put back."""
Labels = Mapping[str, str]
_MOST = 50
"""Nodes of a cluster that are written to after one look at it; the others have their turn next."""
_REST = 3600.0
"""Seconds for which a refused label is left alone."""
_Refusal = tuple[str, str, str]
"""The uid of a node, key and value of a label."""


@dataclass
class NodeLabels:
    """Puts labels back on the nodes of workload clusters."""

    wanted: Callable[[Key], Mapping[str, Labels]]
    """What the nodes of a cluster should have, by provider id."""
    clock: Callable[[], float] = time.monotonic
    most: int = _MOST
    _refused: dict[Key, dict[_Refusal, float]] = field(default_factory=dict)

    async def put_back(self, kube: Kube, cluster: Key, nodes: Sequence[Node]) -> bool:
        """Set what is missing on these nodes; say whether some had to be left for the next time.

        Raises KubeError if the cluster cannot be spoken to. Writes nothing where all is well.
        """
        self._forget(cluster, nodes)
        wanted, left = self.wanted(cluster), self.most
        for node in nodes:
            labels = to_put_back(node.metadata.labels, wanted.get(node.spec.provider_id, {}))
            lacking = {k: v for k, v in labels.items() if not self._is_refused(cluster, node, k, v)}
            if not lacking:
                continue
            if left == 0:
                return True
            left -= 1
            await self._set(kube, cluster, node, lacking)
        return False

    def forget(self, cluster: Key) -> None:
        """Forget what a cluster has refused."""
        self._refused.pop(cluster, None)

    async def _set(self, kube: Kube, cluster: Key, node: Node, labels: Labels) -> None:
        try:
            await _merge(kube, node, labels)
        except (Forbidden, Invalid) as error:
            if len(labels) > 1:
                for key, value in labels.items():
                    await self._set(kube, cluster, node, {key: value})
                return
            ((key, value),) = labels.items()
            self._refused.setdefault(cluster, {})[node.metadata.uid, key, value] = self.clock()
            log.warning(
                "the workload cluster refuses a label of a node",
                cluster=str(cluster),
                node=node.metadata.name,
                label=f"{key}={value}",
                error=str(error),
            )
        except Gone:
            return
        else:
            log.info(
                "labels put back",
                cluster=str(cluster),
                node=node.metadata.name,
                labels=",".join(f"{key}={value}" for key, value in labels.items()),
            )

    def _is_refused(self, cluster: Key, node: Node, key: str, value: str) -> bool:
        return (node.metadata.uid, key, value) in self._refused.get(cluster, {})

    def _forget(self, cluster: Key, nodes: Iterable[Node]) -> None:
        """Forget refusals of nodes that are gone, and old ones, which are tried again."""
        uids, now = {node.metadata.uid for node in nodes}, self.clock()
        refused = self._refused.get(cluster, {})
        kept = {one: at for one, at in refused.items() if one[0] in uids and now - at < _REST}
        self._refused[cluster] = kept


async def _merge(kube: Kube, node: Node, labels: Labels) -> None:
    await kube.merge(NODE, node, {"metadata": {"labels": labels}}, manager=MANAGER)


def labels_of(machines: Iterable[VCOMachine]) -> dict[str, Labels]:
    """Return what the nodes of provisioned machines should have, by provider id."""
    return {
        machine.spec.provider_id: node_labels(
            machine.status.gpus[0].model if machine.status.gpus else "",
            machine.status.failure_domain,
            machine.status.location,
        )
        for machine in machines
        if machine.spec.provider_id and machine.status.initialization
    }
