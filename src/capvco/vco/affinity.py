"""Anti-affinity groups of a cloudspace: VMs that are kept on different hosts."""

from capvco.vco.call import Call, read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model, Result
from capvco.vco.models import AffinityGroup, GroupMember

_LIST = "/customers/{customer_id}/cloudspaces/{cloudspace_id}/anti-affinity-groups"
_ONE = _LIST + "/{group_id}"
_VMS = _ONE + "/vms"
_VM = _VMS + "/{vm_id}"


class _Members(Model, frozen=True):
    vms: tuple[GroupMember, ...]


class AffinityGroups:
    """The anti-affinity groups of a customer. The name that a caller gives a group is its id."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, cloudspace_id: str) -> tuple[AffinityGroup, ...]:
        """List the groups of a cloudspace."""
        call = read(_LIST, path={"cloudspace_id": cloudspace_id})
        return (await self._client.send(call, Result[AffinityGroup])).result

    async def create(self, cloudspace_id: str, *, group_id: str, spread: int = -1) -> None:
        """Create an empty group; -1 spreads over as many hosts as there are."""
        call = Call(
            method="POST",
            route=_LIST,
            path={"cloudspace_id": cloudspace_id},
            query={"group_id": group_id, "spread": spread},
        )
        await self._client.ack(call)

    async def delete(self, cloudspace_id: str, group_id: str) -> None:
        """Delete a group."""
        await self._client.ack(
            Call(method="DELETE", route=_ONE, path=_path(cloudspace_id, group_id))
        )

    async def members(self, cloudspace_id: str, group_id: str) -> tuple[GroupMember, ...]:
        """List the VMs of a group."""
        call = read(_VMS, path=_path(cloudspace_id, group_id))
        return (await self._client.send(call, _Members)).vms

    async def add(self, cloudspace_id: str, group_id: str, *, vm_id: int) -> None:
        """Put a VM into a group."""
        call = Call(
            method="POST",
            route=_VMS,
            path=_path(cloudspace_id, group_id),
            query={"vm_id": vm_id},
        )
        await self._client.ack(call)

    async def remove(self, cloudspace_id: str, group_id: str, *, vm_id: int) -> None:
        """Take a VM out of a group."""
        path = {**_path(cloudspace_id, group_id), "vm_id": vm_id}
        await self._client.ack(Call(method="DELETE", route=_VM, path=path))


def _path(cloudspace_id: str, group_id: str) -> dict[str, str | int]:
    return {"cloudspace_id": cloudspace_id, "group_id": group_id}
