"""Server pools, layer-4 load balancers and port forwards of a cloudspace's own gateway."""

from typing import Literal

import msgspec

from capvco.vco.call import Call, read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model, Result, Text
from capvco.vco.models import (
    ID,
    LoadBalancer,
    LoadBalancerItem,
    PoolHost,
    PortForward,
    ServerPool,
    ServerPoolItem,
)

_CLOUDSPACE = "/customers/{customer_id}/cloudspaces/{cloudspace_id}"
_POOLS = _CLOUDSPACE + "/ingress/server-pools"
_POOL = _POOLS + "/{serverpool_id}"
_HOSTS = _POOL + "/hosts"
_HOST = _HOSTS + "/{host_id}"
_BALANCERS = _CLOUDSPACE + "/ingress/load-balancers"
_BALANCER = _BALANCERS + "/{loadbalancer_id}"
_FORWARDS = _CLOUDSPACE + "/portforwards"
_FORWARD = _FORWARDS + "/{portforward_id}"


class _PortForwardID(Model, frozen=True):
    texts = ("portforward_id",)

    portforward_id: Text


class NewPortForward(Model, frozen=True):
    """What a port forward is made with; without an address, the cloudspace's first one counts."""

    vm_id: int
    local_port: int
    public_port: int
    protocol: Literal["tcp", "udp"] = "tcp"
    public_ip: str | None = None


class LoadBalancers:
    """What leads from a cloudspace's address to its VMs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_pools(self, cloudspace_id: str) -> tuple[ServerPoolItem, ...]:
        """List the server pools of a cloudspace."""
        call = read(_POOLS, path={"cloudspace_id": cloudspace_id})
        return (await self._client.send(call, Result[ServerPoolItem])).result

    async def get_pool(self, cloudspace_id: str, serverpool_id: str) -> ServerPool:
        """Read one server pool with its hosts."""
        call = read(_POOL, path=_pool(cloudspace_id, serverpool_id))
        return await self._client.send(call, ServerPool)

    async def create_pool(
        self, cloudspace_id: str, *, name: str, description: str | None = None
    ) -> str:
        """Create an empty server pool and return its id."""
        call = Call(
            method="POST",
            route=_POOLS,
            path={"cloudspace_id": cloudspace_id},
            query={"name": name, "description": description},
        )
        return (await self._client.send(call, ID)).id

    async def delete_pool(self, cloudspace_id: str, serverpool_id: str) -> None:
        """Delete a server pool; delete the balancers that use it first."""
        path = _pool(cloudspace_id, serverpool_id)
        await self._client.ack(Call(method="DELETE", route=_POOL, path=path))

    async def list_hosts(self, cloudspace_id: str, serverpool_id: str) -> tuple[PoolHost, ...]:
        """List the hosts of a server pool."""
        call = read(_HOSTS, path=_pool(cloudspace_id, serverpool_id))
        return (await self._client.send(call, Result[PoolHost])).result

    async def add_host(self, cloudspace_id: str, serverpool_id: str, *, address: str) -> PoolHost:
        """Add a host to a server pool by its address."""
        call = Call(
            method="POST",
            route=_HOSTS,
            path=_pool(cloudspace_id, serverpool_id),
            query={"address": address},
        )
        return await self._client.send(call, PoolHost)

    async def remove_host(self, cloudspace_id: str, serverpool_id: str, host_id: str) -> None:
        """Remove a host from a server pool."""
        path = {**_pool(cloudspace_id, serverpool_id), "host_id": host_id}
        await self._client.ack(Call(method="DELETE", route=_HOST, path=path))

    async def list(self, cloudspace_id: str) -> tuple[LoadBalancerItem, ...]:
        """List the layer-4 load balancers of a cloudspace."""
        call = read(_BALANCERS, path={"cloudspace_id": cloudspace_id})
        return (await self._client.send(call, Result[LoadBalancerItem])).result

    async def get(self, cloudspace_id: str, loadbalancer_id: str) -> LoadBalancer:
        """Read one load balancer."""
        path = {"cloudspace_id": cloudspace_id, "loadbalancer_id": loadbalancer_id}
        return await self._client.send(read(_BALANCER, path=path), LoadBalancer)

    async def create(  # noqa: PLR0913 - they are the fields of one body, all by name
        self,
        cloudspace_id: str,
        *,
        name: str,
        port: int,
        serverpool_id: str,
        target_port: int,
        ip_address: str = "",
        protocol: Literal["TCP", "UDP"] = "TCP",
        description: str = "",
    ) -> str:
        """Create a load balancer and return its id; without an address it listens on all."""
        front_end: dict[str, object] = {"port": port}
        if ip_address:
            front_end["ip_address"] = ip_address
        call = Call(
            method="POST",
            route=_BALANCERS,
            path={"cloudspace_id": cloudspace_id},
            body={
                "name": name,
                "description": description,
                "type": protocol,
                "front_end": front_end,
                "back_end": {"serverpool_id": serverpool_id, "target_port": target_port},
            },
        )
        return (await self._client.send(call, ID)).id

    async def delete(self, cloudspace_id: str, loadbalancer_id: str) -> None:
        """Delete a load balancer."""
        path = {"cloudspace_id": cloudspace_id, "loadbalancer_id": loadbalancer_id}
        await self._client.ack(Call(method="DELETE", route=_BALANCER, path=path))

    async def list_forwards(self, cloudspace_id: str) -> tuple[PortForward, ...]:
        """List the port forwards of a cloudspace."""
        call = read(_FORWARDS, path={"cloudspace_id": cloudspace_id})
        return (await self._client.send(call, Result[PortForward])).result

    async def create_forward(self, cloudspace_id: str, forward: NewPortForward) -> str:
        """Forward a port of the cloudspace's address to a VM, and return the forward's id."""
        call = Call(
            method="POST",
            route=_FORWARDS,
            path={"cloudspace_id": cloudspace_id},
            query=msgspec.structs.asdict(forward),
        )
        return (await self._client.send(call, _PortForwardID)).portforward_id

    async def delete_forward(self, cloudspace_id: str, portforward_id: str) -> None:
        """Delete a port forward."""
        path = {"cloudspace_id": cloudspace_id, "portforward_id": portforward_id}
        await self._client.do(Call(method="DELETE", route=_FORWARD, path=path))


def _pool(cloudspace_id: str, serverpool_id: str) -> dict[str, str | int]:
    return {"cloudspace_id": cloudspace_id, "serverpool_id": serverpool_id}
