"""GPU profiles of a location, and the vGPUs that a customer reserved there."""

from capvco.vco.call import Call, read
from capvco.vco.client import Client
from capvco.vco.envelopes import Result
from capvco.vco.errors import Inconsistent
from capvco.vco.models import VGPU, VGPUID, GPUProfile, VGPUPage
from capvco.vco.pages import collect

_PROFILES = "/customers/{customer_id}/locations/{location}/gpus"
_PROFILE = _PROFILES + "/{gpu_id}"
_VGPUS = "/customers/{customer_id}/locations/{location}/vgpus"
_VGPU = _VGPUS + "/{vgpu_id}"
_READINGS = 4
# Which one it is, is not documented; the platform's lower layer uses all three for shortages.
_CAPACITY = frozenset({400, 409, 503})


class GPUs:
    """The GPUs that a customer can have, and has."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def profiles(self, location: str) -> tuple[GPUProfile, ...]:
        """List what a location offers, with how many of each are free."""
        call = read(_PROFILES, path={"location": location})
        return (await self._client.send(call, Result[GPUProfile])).result

    async def reserve(self, location: str, *, gpu_id: str, name: str) -> str:
        """Reserve one instance of a profile and return the vGPU's id. Costs money from now on.

        Raises NoCapacity if none is free, NotFound if there is no such profile. Names need not be
        unique for the platform: after UnknownOutcome, look for the name before reserving again.
        """
        call = Call(
            method="POST",
            route=_PROFILE,
            path={"location": location, "gpu_id": gpu_id},
            body={"vgpu_name": name},
            capacity=_CAPACITY,
        )
        return (await self._client.send(call, VGPUID)).vgpu_id

    async def vgpus(
        self, location: str, *, include_deleted: bool = False, only_deleted: bool = False
    ) -> tuple[VGPU, ...]:
        """List all vGPUs of a location, those in the recycle bin only if asked for.

        The whole list or an error: raises Inconsistent if it changes under every reading.
        """

        async def page(start: int, limit: int) -> VGPUPage:
            call = read(
                _VGPUS,
                path={"location": location},
                limit=limit,
                start_after=start,
                include_deleted=include_deleted,
                only_deleted=only_deleted,
            )
            return await self._client.send(call, VGPUPage)

        for _ in range(_READINGS):
            if (found := await collect(page)) is not None:
                return found
        raise Inconsistent(
            "GET", _VGPUS, 200, f"{_READINGS} readings of the list did not add up to its count"
        )

    async def release(
        self, location: str, vgpu_id: str, *, detach: bool = False, permanently: bool = True
    ) -> None:
        """Delete a vGPU; only permanently is sure to free its card and to end its cost.

        Without `detach`, one that is attached to a VM is not to be taken away from it.
        """
        call = Call(
            method="DELETE",
            route=_VGPU,
            path={"location": location, "vgpu_id": vgpu_id},
            query={"detach": detach, "permanently": permanently},
        )
        await self._client.do(call)

    async def restore(self, location: str, vgpu_id: str) -> None:
        """Take a vGPU out of the recycle bin."""
        path = {"location": location, "vgpu_id": vgpu_id}
        await self._client.do(Call(method="POST", route=_VGPU, path=path))
