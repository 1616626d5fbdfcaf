"""One example's namespace and cloud: what a user and an operator do there, and what is seen."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from capvco.api.upstream import PAUSED_ANNOTATION
from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.services.record import Record
from tests.chaos.stateful import objects
from tests.chaos.stateful.apiserver import Apiserver
from tests.chaos.stateful.faults import WHAT, WHERE
from tests.chaos.stateful.inprocess import InProcess
from tests.chaos.stateful.world import World
from tests.support.scenario import IMAGE, LOCATION, Object, condition
from vcosim.control import ControlError, When
from vcosim.ledger import Row
from vcosim.records import Vm

PLENTY = 12
PATIENCE = 40.0
"""Seconds in which everything must have become as it should be, once nothing goes wrong."""


class Machine(NamedTuple):
    """What Kubernetes says of a machine."""

    obj: Object
    record: Record | None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.obj["metadata"]["name"])

    @property
    def running(self) -> bool:
        """Whether it is said to be provisioned and well."""
        return condition(self.obj, "Ready").get("status") == "True"

    @property
    def provisioned(self) -> bool:
        """Whether Cluster API would take it for provisioned."""
        return bool(self.obj.get("status", {}).get("initialization", {}).get("provisioned"))

    @property
    def attached(self) -> set[str]:
        """The vGPUs that are said to be attached."""
        gpus = self.obj.get("status", {}).get("gpus", [])
        return {gpu["vgpuId"] for gpu in gpus if gpu["attached"]}

    def knows(self, row: Row) -> bool:
        """Say whether the record has a reservation: by its id, or by the name of an attempt."""
        if self.record is None:
            return False
        ids = {slot.vgpu_id for slot in self.record.gpus if slot.vgpu_id}
        names = {slot.name for slot in self.record.gpus if not slot.vgpu_id}
        return row.vgpu_id in ids or row.name in names | set(self.record.lost)


class Life:
    """A namespace with a cluster, and its cloud."""

    def __init__(self, world: World, kube: Apiserver) -> None:
        self.kube = kube
        self.control = world.simulator.control
        self.customer = world.simulator.customer_id
        self._world = world
        self._manager: InProcess | None = None
        self.foreign: set[str] = set()
        """The vGPUs of strangers."""
        self.foreign_vms: dict[str, Vm] = {}
        """The VMs of strangers in the cluster's cloudspace, as they are and shall stay."""
        self.cloudspace = ""

    @classmethod
    @contextmanager
    def lived(cls, world: World) -> Iterator["Life"]:
        """Start over with the cloud, in a fresh namespace; no manager is left at the end."""
        world.simulator.control.reset()
        with Apiserver(world.cluster, world.cluster.create_namespace("stateful")) as kube:
            life = cls(world, kube)
            try:
                life.found_cluster()
                yield life
            finally:
                life.kill_manager()

    # --- the manager ---

    @property
    def managed(self) -> bool:
        """Whether a manager runs."""
        return self._manager is not None

    def start_manager(self) -> None:
        """Start a manager, if none runs."""
        if self._manager is None:
            self._manager = InProcess(self._world.settings(self.kube.namespace))
            self._manager.start()

    def kill_manager(self) -> None:
        """End the manager wherever it is, if one runs."""
        if self._manager is not None:
            self._manager.kill()
            self._manager = None

    def stop_manager(self) -> None:
        """End the manager in order, if one runs."""
        if self._manager is not None:
            self._manager.stop()
            self._manager = None

    # --- what a user and Cluster API do ---

    def found_cluster(self) -> None:
        """Make the credentials and a provisioned cluster; the manager runs afterwards."""
        for secret in objects.secrets(self._world.simulator):
            self.kube.create("secrets", secret)
        owner = self.kube.create("clusters", objects.cluster())
        self.kube.create("vcoclusters", objects.vco_cluster(owner))
        self.start_manager()
        self.until("the cluster", self._found_cloudspace)
        status = {"status": {"initialization": {"infrastructureProvisioned": True}}}
        self.kube.merge("clusters", f"{objects.CLUSTER}/status", status)

    def _found_cloudspace(self) -> bool:
        found = self.kube.get("vcoclusters", objects.CLUSTER) or {}
        status = found.get("status", {})
        if not status.get("initialization", {}).get("provisioned"):
            return False
        self.cloudspace = status["sites"][0]["cloudspaceID"]
        return True

    def create(self, name: str, **spec: object) -> None:
        """Make a Machine and its VCOMachine."""
        owner = self.kube.create("machines", objects.machine(name))
        self.kube.create("vcomachines", objects.vco_machine(owner, **spec))

    def wipe_status(self, name: str) -> None:
        """Empty a VCOMachine's status, as a move does; its Machine knows by then what it was."""
        found = self.machines().get(name)
        if found is None:
            return
        if found.provisioned:
            spec = {"providerID": found.obj["spec"]["providerID"]}
            self.kube.merge("machines", name, {"spec": spec})
        empty = dict.fromkeys(found.obj.get("status", {}))
        self.kube.merge("vcomachines", f"{name}/status", {"status": empty})

    def pause(self, plural: str, name: str, *, pause: bool) -> None:
        """Set or take Cluster API's annotation."""
        annotations = {PAUSED_ANNOTATION: "" if pause else None}
        self.kube.merge(plural, name, {"metadata": {"annotations": annotations}})

    def end_cluster(self) -> None:
        """Delete the cluster and wait for its end, strangers' VMs out of the way by then."""
        for vm in self.foreign_vms.values():
            self.control.hand.delete_vm(vm, permanently=True)
        self.foreign_vms.clear()
        self.kube.delete("vcoclusters", objects.CLUSTER)
        self.until("the end", lambda: self.kube.get("vcoclusters", objects.CLUSTER) is None)
        left = [one["name"] for one in self.control.state().get("cloudspace", [])]
        assert not left, f"left: {left}"

    # --- what the platform does ---

    def fault(self, what: str, where: str, *, every: int, times: int) -> None:
        """Let something go wrong from now on."""
        self.control.faults.add(WHAT[what], WHERE[where], When(every=every), times=times)

    # --- what strangers do, and people by hand ---

    def stranger(self, name: str) -> None:
        """Reserve a vGPU that is not ours, under any name."""
        card = self.cards("L4 ")[0]
        made = self.control.hand.add_vgpu(self.customer, LOCATION, card, name)
        self.foreign.add(made)

    def strangers_vm(self, name: str) -> None:
        """Make a VM that is not ours in the cluster's cloudspace, under any name."""
        query: dict[str, str | int | bool] = {
            "name": name,
            "description": "mine",
            "image_id": IMAGE,
            "vcpus": 1,
            "memory": 512,
            "disk_size": 10,
            "start_vm": False,
        }
        path = f"/customers/{self.customer}/cloudspaces/{self.cloudspace}/vms"
        self.control.hand.call("POST", path, query=query, body={})
        self.foreign_vms[name] = self.vms(name)[0]

    def delete_vm(self, name: str, *, permanently: bool) -> bool:
        """Delete a machine's VM by hand; says whether there was one."""
        for vm in self.our_vms(name):
            try:
                self.control.hand.delete_vm(vm, permanently=permanently)
            except ControlError:
                return False  # busy: a person would have been told so
            return True
        return False

    def delete_vgpu(self, name: str, *, permanently: bool) -> bool:
        """Delete one of a machine's vGPUs by hand; says whether there was one that may be."""
        for row in self.holdings(name):
            try:
                self.control.hand.delete_vgpu(
                    self.customer, LOCATION, row.vgpu_id, permanently=permanently
                )
            except ControlError:
                continue  # attached: a person would have been told so
            return True
        return False

    # --- what is seen ---

    def cards(self, model: str) -> list[str]:
        """Return the ids of the cards whose model begins so."""
        return [c.id for c in self.control.cards.list(LOCATION) if c.model.startswith(model)]

    def room(self, model: str, capacity: int) -> None:
        """Give all cards of a model a capacity."""
        for card in self.cards(model):
            self.control.cards.set(LOCATION, card, capacity)

    def vms(self, name: str = "") -> list[Vm]:
        """Return the VMs of a machine, or of all, those in the recycle bin not included."""
        found = [vm for vm in self.control.vms() if not vm.binned and vm.status != "DESTROYED"]
        return [vm for vm in found if name in ("", vm.name)]

    def our_vms(self, name: str = "") -> list[Vm]:
        """Return the VMs that are not strangers'."""
        strange = {vm.id for vm in self.foreign_vms.values()}
        return [vm for vm in self.vms(name) if vm.id not in strange]

    def holdings(self, name: str = "") -> list[Row]:
        """Return the reservations that are held for a machine, or for all."""
        rows = self.control.ledger().rows
        ours = [r for r in rows if r.released_at is None and r.vgpu_id not in self.foreign]
        return [r for r in ours if name in ("", owner(r))]

    def machines(self) -> dict[str, Machine]:
        """Return all VCOMachines by their names."""
        found = [Machine(o, _record(o)) for o in self.kube.items("vcomachines")]
        return {one.name: one for one in found}

    def until(self, what: str, done: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Look until something holds; fails with a picture of what there is."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.picture()}"
            time.sleep(0.02)

    def pass_calls(self, count: int, seconds: float = 0.3) -> None:
        """Let the manager make so many calls to the cloud, or some time pass without any."""
        before = self._newest_call()
        deadline = time.monotonic() + seconds
        while self._newest_call() < before + count and time.monotonic() < deadline:
            time.sleep(0.01)

    def _newest_call(self) -> int:
        return sum(one.count for one in self.control.counts())

    def picture(self) -> str:
        """Describe what there is, for a failed test."""
        lines = [f"{self.kube.namespace}: {len(self.foreign)} foreign {sorted(self.foreign)}"]
        for plural in ("vcoclusters", "vcomachines"):
            lines += [_line(o) for o in self.kube.items(plural)]
        lines += [f"held: {row}" for row in self.holdings()]
        lines += [f"VM: {vm.name} {vm.id} {vm.status}" for vm in self.control.vms()]
        lines += [_call(c) for c in self.control.calls()[-40:]]
        return "\n".join(lines)


def owner(row: Row) -> str:
    """Return the machine that a reservation is named after."""
    return row.name.removeprefix("capvco-").partition("-gpu-")[0]


def _record(obj: Object) -> Record | None:
    text = obj["metadata"].get("annotations", {}).get(RECORD_ANNOTATION)
    return msgspec.json.decode(text, type=Record) if text else None


def _line(obj: Object) -> str:
    meta, ready = obj["metadata"], condition(obj, "Ready")
    going = " deleted" if "deletionTimestamp" in meta else ""
    said = f"{ready.get('reason')}: {ready.get('message')}"
    gpus = json.dumps(obj.get("status", {}).get("gpus", []))
    return f"{obj['kind']} {meta['name']}{going}: {said}\n  {_record(obj)}\n  {gpus}"


def _call(call: object) -> str:
    found = msgspec.to_builtins(call)
    return "  {seq} {started:.2f} {method} {path} {query} -> {status} {fault}".format(**found)
