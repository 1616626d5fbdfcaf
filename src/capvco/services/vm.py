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
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.vco.errors import Conflict, NoCapacity, NotFound, Refused, UnknownOutcome
from capvco.vco.models import VM, VMItem
from capvco.vco.vms import NewVM

RUNNING = "RUNNING"
HALTED = "HALTED"
READY_IMAGE = "CREATED"
_CLOCK_SKEW = 300
"""Seconds by which the platform's clock may be behind ours."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which VM: whose, and where."""

    namespace: str
    name: str
    location: str
    cloudspace_id: str


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
        if known_id is not None and (vm := await self.get(known_id)):
            return vm
        since = max(record.vm_at, self.cloud.since(self.cloud.waits.poll / 2))
        listed = await self._listed(since)
        named = [vm for vm in listed if vm.name == self.place.name and not vm.in_bin]
        for item in named:
            vm = await self.get(item.vm_id)
            if vm and names.is_marked(vm.description, record.owner):
                return vm
            if vm:
                raise Terminal(Reason.VM_NAME_TAKEN, self._taken(vm.vm_id, "the cloudspace"))
        return None

    async def look(
        self, record: Record, known_id: int | None, *, since: float
    ) -> VM | VMItem | None:
        """Return a provisioned machine's VM from the shared list; None if it is proven absent."""
        try:
            listed = await self._listed(since)
            for item in listed:
                if item.vm_id == known_id and not item.in_bin:
                    return item
            return await self.find(record, known_id)
        except NotFound:
            await self._confirm_location()
            return None

    async def _confirm_location(self) -> None:
        """Raise if the customer or the location is what was not found: then nothing is absent."""
        await self.cloud.vco.locations.get(self.place.location)

    async def get(self, vm_id: int) -> VM | None:
        """Return a VM by its id, None if the platform says that there is none."""
        try:
            return await self.cloud.vco.vms.get(self.place.cloudspace_id, vm_id)
        except NotFound:
            return None

    async def _listed(self, since: float) -> tuple[VMItem, ...]:
        return await self.cloud.inventory.vms(self.place.cloudspace_id, since=since)

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

    async def preflight(self, image_id: int, spec: VCOMachineSpec) -> None:
        """Check the image before anything is paid for. Raises Terminal with what is possible."""
        location = self.place.location
        try:
            image = await self.cloud.vco.images.get(location, image_id)
        except NotFound:
            images = await self.cloud.vco.images.list(location)
            known = ", ".join(f"{i.image_id} ({i.name})" for i in images) or "none"
            raise Terminal(
                Reason.IMAGE_UNAVAILABLE,
                f"no image has the id {image_id} in {location}; image ids belong to one location;"
                f" available: {known}",
            ) from None
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
            vm = await self.find(record, known_id)
            if vm is None:
                await self._purge(record)
                # A VM that was seen cannot appear any more; an attempt that was not, may.
                return self.unsettled(record) if known_id is None else None
            await self._delete_one(vm.vm_id)
            if await self.get(vm.vm_id) is None:
                await self._purge(record)
                return None
        except NotFound:
            # The cloudspace itself is gone, and all below it.
            await self._confirm_location()
            return None
        except Conflict as error:
            return Pending(Reason.DELETING, f"the VM is busy: {error}", self.cloud.waits.poll)
        message = f"waiting until the VM {vm.vm_id} is gone (now {vm.status})"
        return Pending(Reason.DELETING, message, self.cloud.waits.poll)

    async def _purge(self, record: Record) -> None:
        """Delete for good what of ours lies in the recycle bin, where it still holds its vGPUs."""
        if not record.vm_at:
            return
        for item in await self._listed(self.cloud.since(self.cloud.waits.poll)):
            ours = item.name == self.place.name and self._made_since(item, record)
            if ours and item.in_bin:
                await self._delete_one(item.vm_id)

    def _made_since(self, item: VMItem, record: Record) -> bool:
        """Say whether a VM under our name came of our intent: names are unique in a cloudspace."""
        return (item.creation_time) >= record.vm_at - _CLOCK_SKEW

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
