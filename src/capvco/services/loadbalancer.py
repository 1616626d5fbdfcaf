"""The control-plane endpoint: a server pool, its members, and a layer-4 load balancer before it.

Both carry the cluster's deterministic name; the pool's and the balancer's descriptions carry the
mark of the cluster's record, since a cloudspace may be shared. The platform has no health checks
on layer 4: a member is added when its VM runs and removed before its VM is deleted.
"""

from dataclasses import dataclass

from capvco.api.conditions import Reason
from capvco.api.v1beta1.cluster import LoadBalancerStatus
from capvco.services import names
from capvco.services.cloud import Cloud
from capvco.services.outcome import Pending, Terminal
from capvco.vco.errors import Conflict, NotFound, UnknownOutcome

API_SERVER_PORT = 6443


@dataclass(frozen=True)
class ControlPlane:
    """The load balancer of one cluster's API servers."""

    cloud: Cloud
    namespace: str
    cluster: str
    owner: str
    cloudspace_id: str

    @property
    def name(self) -> str:
        """Name of the server pool and of the load balancer."""
        return names.cluster_resource(self.namespace, self.cluster)

    @property
    def _description(self) -> str:
        return names.description("VCOCluster", self.namespace, self.cluster, self.owner)

    async def ensure(self, port: int) -> LoadBalancerStatus | Pending:
        """Return the balancer's ids, made where they are missing. Idempotent, found by name."""
        try:
            pool = await self.find_pool() or await self._create_pool()
            balancer = await self._find_balancer() or await self._create_balancer(pool, port)
        except UnknownOutcome as error:
            return Pending(Reason.CREATING_LOAD_BALANCER, str(error), self.cloud.waits.poll)
        return LoadBalancerStatus(server_pool_id=pool, load_balancer_id=balancer)

    async def find_pool(self) -> str | None:
        """Return the id of the cluster's own server pool. Raises Terminal for a stranger's."""
        api = self.cloud.vco.loadbalancers
        for item in await api.list_pools(self.cloudspace_id):
            if item.name == self.name:
                full = await api.get_pool(self.cloudspace_id, item.serverpool_id)
                self._refuse_stranger("server pool", full.serverpool_id, full.description)
                return full.serverpool_id
        return None

    async def _find_balancer(self) -> str | None:
        api = self.cloud.vco.loadbalancers
        for item in await api.list(self.cloudspace_id):
            if item.name == self.name:
                full = await api.get(self.cloudspace_id, item.loadbalancer_id)
                self._refuse_stranger("load balancer", full.loadbalancer_id, full.description)
                return full.loadbalancer_id
        return None

    def _refuse_stranger(self, kind: str, id_: str, description: str | None) -> None:
        if not names.is_marked(description, self.owner):
            raise Terminal(
                Reason.REFUSED_BY_PLATFORM,
                f"a {kind} named {self.name} exists in the cloudspace {self.cloudspace_id}"
                f" ({id_}) and is not this cluster's: rename or delete it",
            )

    async def _create_pool(self) -> str:
        return await self.cloud.vco.loadbalancers.create_pool(
            self.cloudspace_id, name=self.name, description=self._description
        )

    async def _create_balancer(self, pool: str, port: int) -> str:
        """Make the balancer. Raises Terminal if something else serves its port."""
        try:
            return await self.cloud.vco.loadbalancers.create(
                self.cloudspace_id,
                name=self.name,
                description=self._description,
                port=port,
                serverpool_id=pool,
                target_port=API_SERVER_PORT,
            )
        except Conflict as error:
            raise Terminal(
                Reason.REFUSED_BY_PLATFORM,
                f"port {port} of the cloudspace {self.cloudspace_id} cannot be had for the"
                " control-plane endpoint: give this cluster a cloudspace of its own, or an endpoint"
                f" of yours in spec.controlPlaneEndpoint ({error})",
            ) from error

    async def add_member(self, address: str) -> Pending | None:
        """Put a control-plane machine into the pool. Idempotent."""
        pool = await self.find_pool()
        if pool is None:
            message = f"the server pool {self.name} does not exist yet"
            return Pending(Reason.CREATING_LOAD_BALANCER, message, self.cloud.waits.poll)
        hosts = await self.cloud.vco.loadbalancers.list_hosts(self.cloudspace_id, pool)
        if address not in {host.address for host in hosts}:
            await self.cloud.vco.loadbalancers.add_host(self.cloudspace_id, pool, address=address)
        return None

    async def remove_member(self, address: str) -> None:
        """Take a control-plane machine out of the pool. Idempotent; a missing pool is fine."""
        api = self.cloud.vco.loadbalancers
        try:
            pool = await self.find_pool()
            if pool is None:
                return
            for host in await api.list_hosts(self.cloudspace_id, pool):
                if host.address == address:
                    await api.remove_host(self.cloudspace_id, pool, host.host_id)
        except (NotFound, Terminal):
            return

    async def delete(self) -> None:
        """Delete the balancer, then the pool. Idempotent; a stranger's is left alone."""
        api = self.cloud.vco.loadbalancers
        try:
            if balancer := await self._find_balancer():
                await api.delete(self.cloudspace_id, balancer)
            if pool := await self.find_pool():
                await api.delete_pool(self.cloudspace_id, pool)
        except (NotFound, Terminal):
            return
