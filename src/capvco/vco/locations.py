"""Locations: where a customer may have things."""

from capvco.vco.accounts import LocationConsumption
from capvco.vco.call import read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model
from capvco.vco.models import Location, LocationName

_LIST = "/customers/{customer_id}/locations"
_ONE = "/customers/{customer_id}/locations/{location}"
_CONSUMPTION = "/customers/{customer_id}/locations/{location}/consumption"


class _Locations(Model, frozen=True):
    locations: tuple[LocationName, ...]


class Locations:
    """The locations of a customer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> tuple[str, ...]:
        """Name the locations that the customer may use."""
        answer = await self._client.send(read(_LIST), _Locations)
        return tuple(item.location for item in answer.locations)

    async def get(self, location: str) -> Location:
        """Read one location. Raises Forbidden if the customer has no access to it."""
        return await self._client.send(read(_ONE, path={"location": location}), Location)

    async def consumption(self, location: str, *, start: int, end: int) -> LocationConsumption:
        """Read what was consumed there between two times in epoch seconds."""
        call = read(_CONSUMPTION, path={"location": location}, start=start, end=end)
        return await self._client.send(call, LocationConsumption)
