"""The cloud as handlers see it: the store at one moment, under the chosen switches."""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from vcosim.records import Cloudspace, Customer, Location, Record, Step, Vgpu, Vm
from vcosim.reply import RefusedError, bad, not_found
from vcosim.request import Call
from vcosim.store import Store
from vcosim.switches import Switches

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Cloud:
    """What a handler works on; reads and writes go to the store, time stands still."""

    store: Store
    now: float
    switches: Switches
    iam_domain: str = ""

    def location(self, call: Call) -> str:
        """Return the location of the path, which the customer may use (else 403, 404)."""
        name = call.at("location")
        if self.store.get(Location, "", name) is None:
            raise not_found(f"Location {name}")
        if name not in self.customer(call).locations:
            raise RefusedError(403, f"Customer {call.customer} has no access to location {name}")
        return name

    def customer(self, call: Call) -> Customer:
        """Return the customer of the path."""
        found = self.store.get(Customer, "", call.customer)
        if found is None:
            raise not_found(f"Customer {call.customer}")
        return found

    def cloudspace(self, call: Call, name: str = "cloudspace_id") -> Cloudspace:
        """Return the cloudspace of the path: 400 for a malformed id, 404 for an unknown one."""
        return self.cloudspace_by_id(call, call.at(name))

    def cloudspace_by_id(self, call: Call, key: str) -> Cloudspace:
        """Return one of the customer's cloudspaces, binned ones included."""
        location = location_of(key)
        found = self.store.get(Cloudspace, location, key)
        if found is None or found.parent != call.customer:
            raise not_found(f"Cloudspace with id {key}")
        return found

    def live_cloudspace(self, call: Call) -> Cloudspace:
        """Return the cloudspace of the path if it is up: things in it may change."""
        found = self.cloudspace(call)
        if found.status != "DEPLOYED":
            raise bad(f"Cloudspace {found.name} is {found.status}, it must be DEPLOYED")
        return found

    def vm(self, call: Call, *, binned: bool = False) -> Vm:
        """Return the VM of the path; one in the recycle bin only when asked for."""
        space = self.cloudspace(call)
        found = self.store.get(Vm, space.location, call.at("vm_id"))
        if found is None or found.parent != space.id or (found.binned and not binned):
            raise not_found(f"Virtual machine with id {call.at('vm_id')}")
        return found

    def idle_vm(self, call: Call) -> Vm:
        """Return the VM of the path if no action is under way on it."""
        return self.idle(self.vm(call))

    def idle(self, record: R) -> R:
        """Return the record if no action is under way on it, else refuse."""
        if record.step is not None:
            raise RefusedError(
                self.switches.busy_status,
                f"Another action is in progress on {record.kind} {record.name}: {record.status}",
            )
        return record

    def vgpus_of(self, vm: Vm) -> list[Vgpu]:
        """Return the vGPUs tied to a VM, binned ones included."""
        return self.store.find(Vgpu, location=vm.location, link=vm.id)

    def begin(self, record: R, status: str, ends: str, seconds: float, arg: str = "") -> R:
        """Start an action: the status shows it until it ends; returns the stored record."""
        step = Step(ends, self.now + seconds, arg)
        moving = replace(record, status=status, step=step, updated=self.now)
        self.store.put(moving)
        return moving

    def fresh(self, kind: str) -> str:
        """Return a new identifier of 24 hex digits; the same world gives the same ones."""
        number = self.store.number(f"id:{kind}")
        return hex_id(f"{kind}:{number}")


def hex_id(seed: str) -> str:
    """Return 24 hex digits that depend on the seed alone."""
    return hashlib.sha256(seed.encode()).hexdigest()[:24]


def cloudspace_id(location: str, number: int) -> str:
    """Return the unpadded URL-safe base64 of ``location:number``."""
    return base64.urlsafe_b64encode(f"{location}:{number}".encode()).decode().rstrip("=")


def location_of(key: str) -> str:
    """Return the location inside a cloudspace id; raises RefusedError (400) for nonsense."""
    try:
        text = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise bad(f"Invalid cloudspace id {key!r}") from error
    location, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        raise bad(f"Invalid cloudspace id {key!r}")
    return location
