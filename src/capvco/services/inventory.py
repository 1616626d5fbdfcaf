"""Lists of the cloud, shared by all machines that ask for them at about the same time.

A thousand waiting machines must not mean a thousand list calls. Each question carries ``since``:
the answer is a list whose request was *started* at or after that moment, so a caller who needs to
see the effect of an earlier call passes the time of that call, and one who merely polls passes
"some seconds ago".
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Generic, TypeVar

from capvco.services.claims import Claims
from capvco.services.listing import Listing
from capvco.vco.cloud import VCO
from capvco.vco.errors import NotFound
from capvco.vco.models import VGPU, GPUProfile, Image, VMItem

T = TypeVar("T")
Clock = Callable[[], float]
_NOT_YET = float("inf")
_RESTS = 2.0
"""How many times as long as the request before the rest takes."""
_LONGEST_REST = 1.0
"""Seconds that a machine may have to wait for a list of its own vGPUs."""


class Shared(Generic[T]):
    """One list: a single request in flight, its answer kept for those who may use it."""

    def __init__(
        self, fetch: Callable[[], Awaitable[T]], clock: Clock, *, rest: float = 0.0
    ) -> None:
        """Rest between two requests for as long as two take, but for ``rest`` seconds at most.

        Where each of many machines needs a list of this very moment, and the list names them all,
        the cost of listing would grow with their square: after a rest, one list serves several.
        """
        self._fetch = fetch
        self._clock = clock
        self._longest_rest = rest
        self._rested = float("-inf")
        self._started = float("-inf")
        self._value: T | None = None
        self._task: asyncio.Task[T] | None = None
        self._task_started = float("-inf")

    async def get(self, since: float) -> T:
        """Return the list as of ``since`` or later, as of now if that is yet to come.

        Raises what the request raises.
        """
        if self._value is not None and self._started >= since:
            return self._value
        while self._task is not None and not self._task.done() and self._task_started < since:
            await asyncio.wait([self._task])
        task = self._task
        if task is None or task.done():
            task = self._start()
        # Shielded: one caller who gives up must not take the answer from the others.
        return await asyncio.shield(task)

    def outdate(self) -> None:
        """Serve what is known to nobody any more: it has just become untrue."""
        self._value = None

    def _start(self) -> asyncio.Task[T]:
        # Until it has begun, it is new enough for whoever comes.
        self._task_started = _NOT_YET
        task = asyncio.get_running_loop().create_task(self._run())
        # An error is raised to whoever waits; if nobody does any more, it is not a leak.
        task.add_done_callback(_observe)
        self._task = task
        return task

    async def _run(self) -> T:
        if (rest := min(self._rested - self._clock(), self._longest_rest)) > 0:
            await asyncio.sleep(rest)
        started = self._task_started = self._clock()
        value = await self._fetch()
        ended = self._clock()
        self._rested = ended + _RESTS * (ended - started)
        self._value, self._started = value, started
        return value


def _observe(task: "asyncio.Task[T]") -> None:
    if not task.cancelled():
        task.exception()


class Inventory:
    """The shared lists of one customer's clouds."""

    def __init__(self, vco: VCO, clock: Clock = time.time) -> None:
        self._vco = vco
        self._clock = clock
        self._profiles: dict[str, Shared[tuple[GPUProfile, ...]]] = {}
        self._vgpus: dict[str, Shared[Listing[VGPU]]] = {}
        self._bins: dict[str, Shared[Listing[VGPU]]] = {}
        self._vms: dict[str, Shared[Listing[VMItem]]] = {}
        self._image: dict[tuple[str, int], Shared[tuple[Image, ...]]] = {}
        self._images: dict[str, Shared[tuple[Image, ...]]] = {}
        self._claims: dict[str, Claims] = {}
        self._locations = Shared(vco.locations.list, clock)

    async def locations(self, *, since: float) -> tuple[str, ...]:
        """Return the names of the customer's locations."""
        return await self._locations.get(since)

    async def profiles(self, location: str, *, since: float) -> tuple[GPUProfile, ...]:
        """Return the GPU profiles of a location."""
        if location not in self._profiles:
            self._profiles[location] = Shared(lambda: self._list_profiles(location), self._clock)
        return await self._profiles[location].get(since)

    def room_returned(self, location: str) -> None:
        """Take note that cards of a location have more room than its list says."""
        if location in self._profiles:
            self._profiles[location].outdate()

    async def vgpus(self, location: str, *, since: float) -> Listing[VGPU]:
        """Return the vGPUs of the customer in a location, without those in the recycle bin."""
        if location not in self._vgpus:
            fetch = partial(self._list_vgpus, location)
            self._vgpus[location] = Shared(fetch, self._clock, rest=_LONGEST_REST)
        return await self._vgpus[location].get(since)

    async def binned_vgpus(self, location: str, *, since: float) -> Listing[VGPU]:
        """Return the vGPUs in the recycle bin, where they still hold their cards.

        A list of its own: whether ``include_deleted`` means "also" or "only" for vGPUs, the
        vendor's description leaves open.
        """
        if location not in self._bins:
            fetch = partial(self._list_vgpus, location, only_deleted=True)
            self._bins[location] = Shared(fetch, self._clock, rest=_LONGEST_REST)
        return await self._bins[location].get(since)

    async def vms(self, cloudspace_id: str, *, since: float) -> Listing[VMItem]:
        """Return all VMs of a cloudspace, those in the recycle bin included."""
        if cloudspace_id not in self._vms:
            self._vms[cloudspace_id] = Shared(lambda: self._list_vms(cloudspace_id), self._clock)
        return await self._vms[cloudspace_id].get(since)

    async def image(self, location: str, image_id: int, *, since: float) -> Image | None:
        """Return an image, None without one: machines of one pool ask for the same."""
        key = (location, image_id)
        if key not in self._image:
            self._image[key] = Shared(partial(self._get_image, *key), self._clock)
        return next(iter(await self._image[key].get(since)), None)

    async def _get_image(self, location: str, image_id: int) -> tuple[Image, ...]:
        try:
            return (await self._vco.images.get(location, image_id),)
        except NotFound:
            return ()

    async def images(self, location: str, *, since: float) -> tuple[Image, ...]:
        """Return all images of a location, without their boot types."""
        if location not in self._images:
            self._images[location] = Shared(partial(self._vco.images.list, location), self._clock)
        return await self._images[location].get(since)

    def claims(self, location: str) -> Claims:
        """Return who is about to take which card of a location."""
        return self._claims.setdefault(location, Claims(self._clock))

    async def _list_profiles(self, location: str) -> tuple[GPUProfile, ...]:
        asked = self._clock()
        found = await self._vco.gpus.profiles(location)
        self.claims(location).listed(asked)
        return found

    async def _list_vgpus(self, location: str, *, only_deleted: bool = False) -> Listing[VGPU]:
        found = await self._vco.gpus.vgpus(location, only_deleted=only_deleted)
        return Listing(found, attrgetter("vgpu_id"), attrgetter("vgpu_name"))

    async def _list_vms(self, cloudspace_id: str) -> Listing[VMItem]:
        found = await self._vco.vms.list(cloudspace_id, include_deleted=True)
        return Listing(found, attrgetter("vm_id"), attrgetter("name"))
