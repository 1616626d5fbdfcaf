"""External networks of a location: what cloudspaces are connected to the outside by."""

from capvco.vco.call import read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model, Result
from capvco.vco.models import ExternalNetwork

_LIST = "/customers/{customer_id}/locations/{location}/external-networks"
_ONE = _LIST + "/{external_network_id}"
_FREE = _ONE + "/ip-addresses"


class _Addresses(Model, frozen=True):
    ip_addresses: tuple[str, ...]


class Networks:
    """The external networks that a customer may use."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, location: str) -> tuple[ExternalNetwork, ...]:
        """List the networks of a location."""
        call = read(_LIST, path={"location": location})
        return (await self._client.send(call, Result[ExternalNetwork])).result

    async def get(self, location: str, external_network_id: int) -> ExternalNetwork:
        """Read one network."""
        call = read(_ONE, path=_path(location, external_network_id))
        return await self._client.send(call, ExternalNetwork)

    async def free_addresses(self, location: str, external_network_id: int) -> tuple[str, ...]:
        """List the free addresses of a network."""
        call = read(_FREE, path=_path(location, external_network_id))
        return (await self._client.send(call, _Addresses)).ip_addresses


def _path(location: str, external_network_id: int) -> dict[str, str | int]:
    return {"location": location, "external_network_id": external_network_id}
