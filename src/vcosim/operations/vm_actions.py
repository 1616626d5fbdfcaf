"""What can be done to a virtual machine: power, names, deletion, return from the bin."""

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.operations.vms import addresses
from vcosim.records import PortForward, Vgpu, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict, done
from vcosim.request import Call


def start(cloud: Cloud, call: Call) -> Reply:
    """Start a VM; one that runs already is fine."""
    vm = cloud.idle_vm(call)
    if call.number("rescue_disk_id") is not None:
        raise RefusedError(404, f"Disk with id {call.number('rescue_disk_id')} not found")
    if vm.status == "RUNNING":
        return done()
    return _power(cloud, vm, "STARTING", "running", cloud.switches.start_seconds)


def stop(cloud: Cloud, call: Call) -> Reply:
    """Stop a VM; one that is halted already is fine."""
    vm = cloud.idle_vm(call)
    if vm.status == "HALTED":
        return done()
    return _power(cloud, vm, "STOPPING", "halted", cloud.switches.stop_seconds)


def reboot(cloud: Cloud, call: Call) -> Reply:
    """Reboot a running VM."""
    return _again(cloud, call, "REBOOTING")


def reset(cloud: Cloud, call: Call) -> Reply:
    """Reset a running VM."""
    return _again(cloud, call, "RESETTING")


def _again(cloud: Cloud, call: Call, status: str) -> Reply:
    vm = cloud.idle_vm(call)
    if vm.status != "RUNNING":
        raise conflict(f"Virtual machine {vm.name} is {vm.status}, it must be RUNNING")
    return _power(cloud, vm, status, "running", cloud.switches.start_seconds)


def _power(cloud: Cloud, vm: Vm, status: str, ends: str, seconds: float) -> Reply:
    cloud.begin(vm, status, ends, seconds)
    return done(cloud.now + seconds)


def rename(cloud: Cloud, call: Call) -> Reply:
    """Give a VM another name."""
    vm = cloud.idle_vm(call)
    name = call.text("name")
    if not name.strip():
        raise bad("Virtual machine name cannot be empty")
    others = [one for one in cloud.store.find(Vm, parent=vm.parent, name=name) if one.id != vm.id]
    if any(not one.binned or cloud.switches.bin_reserves_names for one in others):
        raise conflict(f"Selected name already exists: {name}")
    cloud.store.put(replace(vm, name=name, updated=cloud.now))
    return Reply({"vm_id": int(vm.id)})


def describe(cloud: Cloud, call: Call) -> Reply:
    """Give a VM another description."""
    vm = cloud.idle_vm(call)
    cloud.store.put(replace(vm, description=call.text("description"), updated=cloud.now))
    return Reply({"vm_id": int(vm.id)})


def delete(cloud: Cloud, call: Call) -> Reply:
    """Move a VM to the recycle bin or destroy it; running ones are stopped on the way."""
    vm = cloud.idle(cloud.vm(call, binned=True))
    permanently = call.flag("permanently")
    if vm.binned and not permanently:
        return done()
    attached = cloud.vgpus_of(vm)
    for vgpu in attached:
        cloud.idle(vgpu)
    policy = _policy(cloud, call, vm, attached)
    for forward in cloud.store.find(PortForward, location=vm.location, link=vm.id):
        if forward.parent == vm.parent and not forward.nested:
            cloud.store.drop(forward)
    status, ends = ("DESTROYING", "destroyed") if permanently else ("DELETING", "binned")
    cloud.begin(vm, status, ends, cloud.switches.delete_seconds, policy)
    return done(cloud.now + cloud.switches.delete_seconds)


def _policy(cloud: Cloud, call: Call, vm: Vm, attached: list[Vgpu]) -> str:
    """Return what becomes of the vGPUs: kept, binned with the VM, or released."""
    if call.flag("detach_gpu"):
        return "keep"
    if vm.binned or not attached:  # what went to the bin with the VM goes with it
        return "bin"
    if cloud.switches.delete_with_vgpu == "refuse":
        raise bad(f"Virtual machine {vm.name} has GPUs attached, detach them first")
    return cloud.switches.delete_with_vgpu


def restore(cloud: Cloud, call: Call) -> Reply:
    """Bring a VM back from the bin: halted, with a new address, with the vGPUs binned with it."""
    vm = cloud.vm(call, binned=True)
    if not vm.binned:
        raise bad(f"Virtual machine {vm.name} is not in the recycle bin")
    cloud.idle(vm)
    space = cloud.live_cloudspace(call)
    if not cloud.switches.bin_reserves_names and cloud.store.find(
        Vm, parent=vm.parent, name=vm.name, binned=False
    ):
        raise conflict(f"Selected name already exists: {vm.name}")
    address = next(addresses(cloud, space), None)
    if address is None:
        raise RefusedError(503, f"No free address in {space.private_network}")
    for vgpu in cloud.vgpus_of(vm):
        returned = replace(vgpu, binned=0.0, binned_with_vm=False)
        cloud.begin(returned, "ATTACHING", "assigned", cloud.switches.restore_seconds)
    back = replace(vm, binned=0.0, link=address)
    return _power(cloud, back, "RESTORING", "halted", cloud.switches.restore_seconds)


HANDLERS = {
    "POST {VM}/start": start,
    "POST {VM}/stop": stop,
    "POST {VM}/reboot": reboot,
    "POST {VM}/reset": reset,
    "PUT {VM}/name": rename,
    "PUT {VM}/description": describe,
    "DELETE {VM}": delete,
    "PUT {VM}/restore": restore,
}
