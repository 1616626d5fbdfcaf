"""Asks management clusters for their VCOMachines; every answer that is not whole is a doubt."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from capvco.api.meta import ObjectMeta
from capvco.api.v1beta1.machine import VCOMachine
from capvco.cli.gpucheck.owners import Claim, Knowledge, claim
from capvco.controllers.kinds import VCO_CLUSTER, VCO_MACHINE
from capvco.runtime.errors import Forbidden, KubeError, NotFound
from capvco.runtime.kube import Kube
from capvco.services import record as records
from capvco.services.record import CorruptRecord


class _Answer(Struct, frozen=True, kw_only=True):
    machines: tuple[VCOMachine, ...] = ()
    doubt: str = ""
    related: bool = False


@dataclass(frozen=True)
class Management:
    """The management clusters of one customer, as far as they were named."""

    kubes: Sequence[Kube]
    customer: str
    related: bool = False
    """Whether the customer's credentials came from one of them."""
    not_asked: str = ""
    """Why there is none to ask."""

    async def look(self) -> Knowledge:
        """Read every VCOMachine anew. Never raises for what Kubernetes answers."""
        if not self.kubes:
            return Knowledge(doubts=(self.not_asked,))
        answers = [await self._ask(kube) for kube in self.kubes]
        claims, doubts = list[Claim](), [a.doubt for a in answers if a.doubt]
        for answer in answers:
            for machine in answer.machines:
                claimed, doubt = claim(machine, self.customer)
                claims += [claimed] if claimed else []
                doubts += [doubt] if doubt else []
        if not doubts and not self.related and not any(a.related for a in answers):
            doubts.append(self._strangers())
        return Knowledge(claims=tuple(claims), doubts=tuple(doubts))

    def _strangers(self) -> str:
        servers = " and ".join(kube.server for kube in self.kubes)
        return (
            f"nothing in {servers} belongs to the customer {self.customer}: if it is the right"
            " cluster, name the credentials by --secret namespace/name of it"
        )

    async def _ask(self, kube: Kube) -> _Answer:
        try:
            machines = await kube.list(VCO_MACHINE)
        except Forbidden:
            return await self._ask_one_namespace(kube)
        except NotFound:
            doubt = f"{kube.server} knows no VCOMachines: is it the management cluster?"
            return _Answer(doubt=doubt)
        except KubeError as error:
            return _Answer(doubt=f"{kube.server} could not be asked: {error}")
        related = any(_customer(one.metadata) == self.customer for one in machines)
        return _Answer(machines=tuple(machines), related=related or await self._has_cluster(kube))

    async def _ask_one_namespace(self, kube: Kube) -> _Answer:
        namespace = kube.namespace or "default"
        try:
            machines = await kube.list(VCO_MACHINE, namespace)
        except KubeError as error:
            return _Answer(doubt=f"{kube.server} does not let us list VCOMachines: {error}")
        doubt = f"{kube.server} lets us list the VCOMachines of namespace {namespace} only"
        return _Answer(machines=tuple(machines), doubt=doubt)

    async def _has_cluster(self, kube: Kube) -> bool:
        try:
            clusters = await kube.list(VCO_CLUSTER)
        except KubeError:
            return False
        return any(_customer(one.metadata) == self.customer for one in clusters)


def _customer(meta: ObjectMeta) -> str:
    try:
        record = records.read(meta.annotations)
    except CorruptRecord:
        return ""
    return record.customer if record else ""
