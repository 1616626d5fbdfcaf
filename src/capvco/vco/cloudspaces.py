"""Cloudspaces: the private networks that VMs live in."""

import base64
import binascii
from collections.abc import Sequence

from capvco.vco.accounts import RecycleBin
from capvco.vco.call import Call, Pace, read
from capvco.vco.client import Client
from capvco.vco.envelopes import FanOut, Model, Result
from capvco.vco.errors import PartialList
from capvco.vco.models import Cloudspace, CloudspaceItem, CloudspaceNetwork

_LIST = "/customers/{customer_id}/cloudspaces"
_ONE = _LIST + "/{cloudspace_id}"
_NETWORKS = _ONE + "/external-networks"
_BIN = "/customers/{customer_id}/recycle-bin"


class _CloudspaceID(Model, frozen=True):
    cloudspace_id: str


class Cloudspaces:
    """The cloudspaces of a customer, in all locations."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self,
        *,
        locations: Sequence[str] | None = None,
        include_deleted: bool = False,
        only_deleted: bool = False,
    ) -> tuple[CloudspaceItem, ...]:
        """List cloudspaces, those in the recycle bin only if asked for.

        Raises PartialList[tuple[CloudspaceItem, ...]] if a location that was asked did not answer.
        """
        call = read(
            _LIST,
            locations=locations or None,
            include_deleted=include_deleted,
            only_deleted=only_deleted,
        )
        answer = await self._client.send(call, FanOut[tuple[CloudspaceItem, ...]])
        if failed := answer.failed(locations or None):
            raise PartialList(call.method, call.route, readable=answer.result, failed=failed)
        return answer.result

    async def get(self, cloudspace_id: str) -> Cloudspace:
        """Read one cloudspace."""
        call = read(_ONE, path={"cloudspace_id": cloudspace_id})
        return await self._client.send(call, Cloudspace)

    async def external_networks(self, cloudspace_id: str) -> tuple[CloudspaceNetwork, ...]:
        """List the external networks of a cloudspace, with its addresses there."""
        call = read(_NETWORKS, path={"cloudspace_id": cloudspace_id})
        return (await self._client.send(call, Result[CloudspaceNetwork])).result

    async def create(
        self,
        *,
        name: str,
        location: str,
        external_network_id: int | None = None,
        private_network: str | None = None,
        local_domain: str | None = None,
    ) -> str:
        """Create a cloudspace and return its id; blocks until it is deployed, or returns early.

        Without an external network the location's default one is used.
        """
        firewall = {"private": False, "external_network_id": external_network_id}
        body = {
            "name": name,
            "location": location,
            "private_network": private_network,
            "local_domain": local_domain,
            "firewall": {key: v for key, v in firewall.items() if v is not None},
        }
        call = Call(
            method="POST",
            route=_LIST,
            body={key: v for key, v in body.items() if v is not None},
            pace=Pace.CREATE,
        )
        return (await self._client.send(call, _CloudspaceID)).cloudspace_id

    async def delete(
        self, cloudspace_id: str, *, permanently: bool, reason: str | None = None
    ) -> None:
        """Delete a cloudspace. Raises Conflict while it holds VMs.

        Permanently also destroys its VMs in the recycle bin, and frees its name and address.
        """
        call = Call(
            method="DELETE",
            route=_ONE,
            path={"cloudspace_id": cloudspace_id},
            query={"permanently": permanently, "reason": reason},
        )
        await self._client.ack(call)

    async def recycle_bin(self) -> RecycleBin:
        """Read what lies in the recycle bin of all locations.

        Raises PartialList[RecycleBin] if a location did not answer.
        """
        call = read(_BIN)
        answer = await self._client.send(call, FanOut[RecycleBin])
        if failed := answer.failed():
            raise PartialList(call.method, call.route, readable=answer.result, failed=failed)
        return answer.result


def encode_cloudspace_id(location: str, number: int) -> str:
    """Make the id that the platform gives to the cloudspace with this number in a location."""
    return base64.urlsafe_b64encode(f"{location}:{number}".encode()).decode().rstrip("=")


def decode_cloudspace_id(cloudspace_id: str) -> tuple[str, int]:
    """Take an id apart into location and number. Raises ValueError, saying what an id is."""
    try:
        padded = cloudspace_id + "=" * (-len(cloudspace_id) % 4)
        location, _, number = base64.b64decode(padded, "-_", validate=True).decode().rpartition(":")
        if location and number.isdecimal():
            return location, int(number)
    except (binascii.Error, ValueError):
        pass
    raise ValueError(
        f"{cloudspace_id!r} is not a cloudspace id: it is base64 of <location>:<number>"
    )
