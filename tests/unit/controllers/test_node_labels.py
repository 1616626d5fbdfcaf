"""Labels of nodes: how many are written at a time, and what is done with refusals."""

import msgspec

from capvco.api.meta import ObjectMeta
from capvco.api.upstream import Node, NodeSpec
from capvco.api.v1beta1.machine import GPUStatus
from capvco.controllers.node_labels import NodeLabels, labels_of
from capvco.runtime.kinds import Key
from capvco.services.labels import node_labels
from tests.support.builders import LOCATION, a_provisioned_status, a_vco_machine
from tests.unit.runtime.scripted import Reply, answering

CLUSTER = Key("default", "prod")
LABELS = {"a": "1", "b": "2"}
OK = Reply((b'{"metadata": {"name": "x"}}',))
NO = Reply((b'{"code": 422, "message": "no"}',), status=422)
FORBIDDEN = Reply((b'{"code": 403, "message": "no"}',), status=403)
GONE = Reply((b'{"code": 404, "message": "no such node"}',), status=404)


def a_node(name: str, **labels: str) -> Node:
    meta = ObjectMeta(name=name, uid=f"uid-{name}", labels=labels)
    return Node(metadata=meta, spec=NodeSpec(provider_id=f"vco://{name}"))


NODES = [a_node("one"), a_node("two"), a_node("three"), a_node("foreign")]
WANTED = {f"vco://{name}": LABELS for name in ("one", "two", "three")}


def patches(*names: str) -> list[str]:
    return [f"PATCH /api/v1/nodes/{name}?fieldManager=capvco-node-labels" for name in names]


async def test_some_at_a_time() -> None:
    """The rest has its turn at the next look; foreign nodes never."""
    labels = NodeLabels(lambda _: WANTED, most=2)
    async with answering(OK, OK, OK) as (kube, script):
        assert await labels.put_back(kube, CLUSTER, NODES)
        assert script.requests == patches("one", "two")
        done = [a_node(name, **LABELS) for name in ("one", "two")]
        assert not await labels.put_back(kube, CLUSTER, [*done, *NODES[2:]])
        assert script.requests == patches("one", "two", "three")


async def test_nothing_for_nothing() -> None:
    """No request where all is well, or nothing is known of a node."""
    labels = NodeLabels(lambda _: WANTED)
    async with answering() as (kube, script):
        assert not await labels.put_back(kube, CLUSTER, [a_node("one", **LABELS, c="3")])
        assert not await labels.put_back(kube, CLUSTER, NODES[3:])
        assert script.requests == []


async def test_refusals() -> None:
    """Each label is then tried by itself; a refused one is left alone for an hour."""
    now = [1000.0]
    labels = NodeLabels(lambda _: WANTED, clock=lambda: now[0])
    async with answering(NO, FORBIDDEN, OK, NO) as (kube, script):
        await labels.put_back(kube, CLUSTER, NODES[:1])
        assert script.requests == patches("one") * 3
        now[0] += 3599
        await labels.put_back(kube, CLUSTER, [a_node("one", b="2")])
        assert script.requests == patches("one") * 3
        now[0] += 1
        await labels.put_back(kube, CLUSTER, [a_node("one", b="2")])
        assert script.requests == patches("one") * 4


async def test_a_node_of_the_same_name() -> None:
    """Another one has refused nothing yet; one that is gone is no fault."""
    labels = NodeLabels(lambda _: WANTED, clock=lambda: 1000.0)
    async with answering(NO, NO, NO, GONE) as (kube, script):
        await labels.put_back(kube, CLUSTER, NODES[:1])
        meta = msgspec.structs.replace(NODES[0].metadata, uid="another")
        await labels.put_back(kube, CLUSTER, [msgspec.structs.replace(NODES[0], metadata=meta)])
        assert script.requests == patches("one") * 4


def test_of_machines() -> None:
    """What the status tells, for machines that are provisioned."""
    gpu = GPUStatus(vgpu_id="v", name="n", profile_id="p", model="NVIDIA A100", attached=True)
    status = a_provisioned_status(gpus=(gpu,))
    machines = [
        a_vco_machine(provider_id="vco://1", status=status),
        a_vco_machine(provider_id="vco://2", status=a_provisioned_status()),
        a_vco_machine(provider_id="vco://3"),
        a_vco_machine(status=status),
    ]
    assert labels_of(machines) == {
        "vco://1": node_labels("NVIDIA A100", LOCATION, LOCATION),
        "vco://2": node_labels("", LOCATION, LOCATION),
    }
