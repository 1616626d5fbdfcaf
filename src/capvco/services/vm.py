"""The VM of one machine: find, create, start, watch, delete.

A VM is ours if its description carries the mark of this machine's record; the platform's list
does not show descriptions, so a VM found by its name is asked for in full before it is touched.
"""

from dataclasses import dataclass

from capvco.api.conditions import Reason
from capvco.api.v1beta1.machine import VCOMachineSpec
from capvco.bootstrap.userdata import Document
from capvco.services import names
from capvco.services.cloud import Cloud
from capvco.services.gpu_reservations import held
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.services.room import no_room, places, speaks_of_room
from capvco.vco.errors import Conflict, NoCapacity, NotFound, Refused, UnknownOutcome
from capvco.vco.models import VM, VMItem
from capvco.vco.vms import NewVM

RUNNING = "RUNNING"
HALTED = "HALTED"
READY_IMAGE = "CREATED"
_OLDEST = 900
"""Seconds by which a VM may seem older than the time noted for the attempt to create it: the
platform's clock may be behind ours, and that time is noted anew when an answer is lost, minutes
after the call."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which VM: whose, and where."""

    namespace: str
    name: str
    location: str
    cloudspace_id: str
    private_network: str = ""
    """Network of the cloudspace; empty if it is not known."""


@dataclass(frozen=True)
class Machines:
    """Operations on the VM of one machine."""

    cloud: Cloud
    place: Place

    async def find(self, record: Record, known_id: int | None) -> VM | None:
        """Return the machine's own VM, None if it is proven absent by a fresh list.

        Raises Terminal if a VM of that name belongs to somebody else, and the client's errors if
        the platform cannot be asked: not an answer is never absence.
        """
        vm, strangers = await self._own(record, known_id)
        if vm is None and strangers:
            where = "the recycle bin of the cloudspace" if strangers[0].in_bin else "the cloudspace"
            raise Terminal(Reason.VM_NAME_TAKEN, self._taken(strangers[0].vm_id, where))
        return vm

    async def _own(self, record: Record, known_id: int | None) -> tuple[VM | None, list[VMItem]]:
        """Return the machine's own VM, or else those of others that have its name."""
        if known_id is not None and (vm := await self.get(known_id)):
            return vm, []
        since = max(record.vm_at, self.cloud.since(self.cloud.waits.poll / 2))
        named = [vm for vm in await self._listed(since) if vm.name == self.place.name]
        # Before the first intent, what lies in the bin under our name cannot be ours; it must not
        # be taken for ours later, when only its age would tell.
        strangers = [v for v in named if v.in_bin and not record.vm_at]
        for item in named:
            vm = None if item.in_bin else await self.get(item.vm_id)
            if vm and names.is_marked(vm.description, record.owner):
                return vm, []
            if vm:
                strangers.append(item)
        return None, strangers

    async def look(
        self, record: Record, known_id: int | None, *, since: float
    ) -> VM | VMItem | None:
        """Return a provisioned machine's VM from the shared list; None if it is proven absent."""
        try:
            for item in await self._listed(since, known_id):
                if item.vm_id == known_id and not item.in_bin:
                    return item
            return await self.find(record, known_id)
        except NotFound:
            await self._confirm_location()
            return None

    async def address(self, record: Record) -> str:
        """Return the address of the machine's own VM, empty without one."""
        try:
            vm, _ = await self._own(record, None)
        except NotFound:
            return ""
        return address(vm) if vm else ""

    async def _confirm_location(self) -> None:
        """Raise if the customer or the location is what was not found: then nothing is absent."""
        await self.cloud.vco.locations.get(self.place.location)

    async def get(self, vm_id: int) -> VM | None:
        """Return a VM by its id, None if the platform says that there is none."""
        try:
            return await self.cloud.vco.vms.get(self.place.cloudspace_id, vm_id)
        except NotFound:
            return None

    async def _listed(self, since: float, known_id: int | None = None) -> tuple[VMItem, ...]:
        """Return what the cloudspace lists under the machine's name or the id of its VM."""
        listing = await self.cloud.inventory.vms(self.place.cloudspace_id, since=since)
        return listing.about(ids={known_id}, names={self.place.name})

    def _taken(self, vm_id: int, where: str) -> str:
        return (
            f"a VM that is not this machine's has the name {self.place.name} in {where}"
            f" {self.place.cloudspace_id} (VM {vm_id}): rename it, or delete it permanently"
        )

    def unsettled(self, record: Record) -> Pending | None:
        """Say whether an earlier attempt to create the VM may still take effect."""
        if record.vm_at and self.cloud.clock() - record.vm_at < self.cloud.waits.settle:
            message = (
                f"the answer to the creation of the VM {self.place.name} was lost; looking for it"
                " before anything is repeated"
            )
            return Pending(Reason.WAITING_FOR_PLATFORM, message, self.cloud.waits.poll)
        return None

    async def enter(self, record: Record, *, since: float) -> Pending | None:
        """Claim a place for the VM in its cloudspace; Pending while there is none.

        ``since``: how old the list of VMs may be.
        """
        cloud, place = self.cloud, self.place
        most = places(place.private_network)
        if most is None:
            return None
        now = cloud.clock()
        listed = await cloud.inventory.vms(place.cloudspace_id, since=since)
        if len(listed) + cloud.places.at_most(place.cloudspace_id) >= most:
            others = cloud.places.of_others(place.cloudspace_id, place.name, now)
            present = {vm.name for vm in listed if not vm.in_bin}
            if place.name not in present and len(present | others) >= most:
                full = f"the network {place.private_network} of the cloudspace is full"
                return no_room(full, cloud.waits.capacity, len(held(record)))
        cloud.places.claim(place.cloudspace_id, place.name, now)
        return None

    def leave(self) -> None:
        """Let others have the place: no VM is made, or it is gone."""
        self.cloud.places.leave(self.place.cloudspace_id, self.place.name)

    async def preflight(self, image_id: int, spec: VCOMachineSpec) -> None:
        """Check the image before anything is paid for. Raises Terminal with what is possible."""
        location, since = self.place.location, self.cloud.since(self.cloud.waits.capacity / 2)
        image = await self.cloud.inventory.image(location, image_id, since=since)
        if image is None:
            images = await self.cloud.inventory.images(location, since=since)
            known = ", ".join(f"{i.image_id} ({i.name})" for i in images) or "none"
            raise Terminal(
                Reason.IMAGE_UNAVAILABLE,
                f"no image has the id {image_id} in {location}; image ids belong to one location;"
                f" available: {known}",
            )
        if image.status and image.status != READY_IMAGE:
            raise Terminal(
                Reason.IMAGE_UNAVAILABLE,
                f"the image {image_id} ({image.name}) in {location} is {image.status}, not"
                f" {READY_IMAGE}: wait until it is, or use another",
            )
        if image.boot_type and image.boot_type != spec.boot_type:
            raise Terminal(
                Reason.BOOT_TYPE_MISMATCH,
                f"Selected boot type can not be different from image boot type: the machine asks"
                f" for {spec.boot_type}, the image {image_id} ({image.name}) has"
                f" {image.boot_type}; set bootType to {image.boot_type}, or publish the image"
                f" again with {spec.boot_type}",
            )

    async def create(
        self, record: Record, image_id: int, spec: VCOMachineSpec, userdata: Document
    ) -> int | Pending:
        """Create the VM, stopped; return its id. The caller has stored the intent (``vm_at``)."""
        try:
            return await self.cloud.vco.vms.create(
                self.place.cloudspace_id, self._new(record, image_id, spec, userdata)
            )
        except UnknownOutcome as error:
            return Pending(Reason.WAITING_FOR_PLATFORM, str(error), self.cloud.waits.poll)
        except Conflict as error:
            await self._explain_conflict(error)
            return Pending(Reason.CREATING_VM, str(error), self.cloud.waits.poll)
        except NoCapacity as error:
            wait = self.cloud.waits.capacity
            return Pending(Reason.CREATING_VM, str(error), wait, failure=True)
        except Refused as error:
            if speaks_of_room(error.words):
                return no_room(str(error), self.cloud.waits.resync, len(held(record)))
            raise Terminal(Reason.REFUSED_BY_PLATFORM, str(error)) from error

    def _new(
        self, record: Record, image_id: int, spec: VCOMachineSpec, userdata: Document
    ) -> NewVM:
        namespace, name = self.place.namespace, self.place.name
        return NewVM(
            name=name,
            hostname=name,
            description=names.description("VCOMachine", namespace, name, record.owner),
            vcpus=spec.vcpus,
            memory_mib=spec.memory_mib,
            disk_gib=spec.disk_gib,
            image_id=image_id,
            userdata=userdata,
            boot_type=spec.boot_type,
            start_vm=False,
            enable_vm_agent=True,
        )

    async def _explain_conflict(self, error: Conflict) -> None:
        """Raise Terminal if the name is taken in the recycle bin, where a get does not see it."""
        for item in await self._listed(self.cloud.clock()):
            if item.name == self.place.name and item.in_bin:
                message = self._taken(item.vm_id, "the recycle bin of the cloudspace")
                raise Terminal(Reason.VM_NAME_TAKEN, message) from error

    async def power(self, vm: VM, *, run: bool) -> VM | Pending:
        """Start or stop the VM; return it once it is in the wanted state. Idempotent."""
        wanted = RUNNING if run else HALTED
        message = f"the VM {vm.vm_id} is {vm.status}; waiting for {wanted}"
        if vm.status in {RUNNING, HALTED} and vm.status != wanted:
            try:
                if run:
                    await self.cloud.vco.vms.start(self.place.cloudspace_id, vm.vm_id)
                else:
                    await self.cloud.vco.vms.stop(self.place.cloudspace_id, vm.vm_id, force=True)
            except Conflict as error:
                message = str(error)
            else:
                # Where the call blocks until the state is reached, this saves a pass.
                vm = await self.get(vm.vm_id) or vm
        if vm.status == wanted:
            return vm
        return Pending(Reason.CREATING_VM, message, self.cloud.waits.poll)

    async def delete(self, record: Record, known_id: int | None) -> Pending | None:
        """Delete the VM for good, its vGPUs detached; None once a read proves it absent."""
        try:
            return await self._delete(record, known_id)
        except NotFound:
            # The cloudspace itself is gone, and all below it.
            await self._confirm_location()
            return None
        except Refused as error:
            # Busy, whichever status the platform has for that: looked at again until it is not.
            message = f"the VM cannot be deleted yet: {error}"
            return Pending(Reason.DELETING, message, self.cloud.waits.poll)

    async def _delete(self, record: Record, known_id: int | None) -> Pending | None:
        # Where somebody else's VM has our name, ours does not exist: that is all one asks here.
        vm, _ = await self._own(record, known_id)
        if vm is not None:
            await self._delete_one(vm.vm_id)
            if await self.get(vm.vm_id) is not None:
                return self._still_there(vm.vm_id, vm.status)
        if pending := await self._purge(record, known_id):
            return pending
        # A VM that was seen cannot appear any more; an attempt that was not, may.
        return self.unsettled(record) if vm is None and known_id is None else None

    def _still_there(self, vm_id: int, status: str) -> Pending:
        message = f"waiting until the VM {vm_id} is gone (now {status})"
        return Pending(Reason.DELETING, message, self.cloud.waits.poll)

    async def _purge(self, record: Record, known_id: int | None) -> Pending | None:
        """Delete for good what of ours lies in the recycle bin, where it still holds its vGPUs."""
        binned = self._binned(await self._listed(self.cloud.since(self.cloud.waits.poll)))
        ours = [v for v in binned if v.vm_id == known_id or self._made_since(v, record)]
        for item in ours:
            await self._delete_one(item.vm_id)
        if not ours:
            return None
        left = {v.vm_id: v for v in self._binned(await self._listed(self.cloud.clock()))}
        still = next((left[item.vm_id] for item in ours if item.vm_id in left), None)
        return self._still_there(still.vm_id, still.status) if still else None

    def _binned(self, listed: tuple[VMItem, ...]) -> list[VMItem]:
        return [item for item in listed if item.name == self.place.name and item.in_bin]

    def _made_since(self, item: VMItem, record: Record) -> bool:
        """Say whether a VM under our name came of our intent: names are unique in a cloudspace."""
        return bool(record.vm_at) and item.creation_time >= record.vm_at - _OLDEST

    async def _delete_one(self, vm_id: int) -> None:
        try:
            await self.cloud.vco.vms.delete(
                self.place.cloudspace_id, vm_id, permanently=True, detach_gpu=True
            )
        except NotFound:
            return


def address(vm: VM | VMItem) -> str:
    """Return the VM's address in its cloudspace, empty until it has one."""
    return next((nic.address for nic in vm.network_interfaces if nic.address), "")
