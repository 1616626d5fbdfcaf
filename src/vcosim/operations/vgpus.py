"""GPU profiles and vGPUs: reserve, list, attach, detach, delete, restore."""

from msgspec.structs import replace

from vcosim import ledger
from vcosim.cloud import Cloud
from vcosim.records import Card, Cloudspace, Vgpu, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict, not_found, unspecified
from vcosim.request import Call
from vcosim.store import Outline


def list_profiles(cloud: Cloud, call: Call) -> Reply:
    """Answer the GPU profiles of a location, one per card, with the room they have."""
    found = cloud.store.find(Card, location=cloud.location(call))
    return Reply({"result": [_profile(cloud, card) for card in found]})


def _profile(cloud: Cloud, card: Card) -> dict[str, object]:
    return {
        "id": card.id,
        "vendor": card.vendor,
        "model": card.model,
        "description": card.description,
        "available_instances": room(cloud, card),
    }


def room(cloud: Cloud, card: Card) -> int:
    """Return how many more vGPUs a card can give."""
    return max(0, card.capacity - ledger.held_of_card(cloud.store, card.location, card.id))


def check_room(cloud: Cloud, call: Call, location: str, gpu_id: str, name: str) -> Card:
    """Return the card if a vGPU of this name can be reserved on it, else refuse."""
    card = cloud.store.get(Card, location, gpu_id)
    if card is None:
        raise not_found(f"GPU with id {gpu_id}")
    if not name.strip():
        raise bad("vgpu_name cannot be empty")
    if cloud.switches.vgpu_name_unique:
        same = cloud.store.find(Vgpu, location=location, parent=call.customer, name=name)
        if any(not one.binned or cloud.switches.bin_reserves_names for one in same):
            raise conflict(f"vGPU with name {name} already exists")
    if room(cloud, card) < 1:
        raise RefusedError(
            cloud.switches.no_capacity_status,
            f"Not enough GPU resources available: {card.vendor} {card.model} has no free instance",
        )
    return card


def reserve(  # noqa: PLR0913 - what is reserved, for whom, where to
    cloud: Cloud, call: Call, location: str, gpu_id: str, name: str, *, vm: Vm | None = None
) -> Vgpu:
    """Make a reservation, tied to a VM from the start when one is given."""
    check_room(cloud, call, location, gpu_id, name)
    vgpu = Vgpu(
        id=cloud.fresh("vgpu"),
        location=location,
        parent=call.customer,
        name=name,
        link=vm.id if vm else "",
        created=cloud.now,
        gpu_id=gpu_id,
    )
    if vm:
        made = cloud.begin(vgpu, "ATTACHING", "assigned", cloud.switches.attach_seconds)
    else:
        made = cloud.begin(vgpu, "RESERVING", "created", cloud.switches.reserve_seconds)
    ledger.reserved(cloud.store, made, cloud.now)
    if vm:
        ledger.attached(cloud.store, made, vm.id, vm.parent, cloud.now)
    return made


def reserve_at_location(cloud: Cloud, call: Call) -> Reply:
    """Reserve a vGPU; it costs from now on, whether or not a VM ever has it."""
    location = cloud.location(call)
    vgpu = reserve(cloud, call, location, call.at("gpu_id"), call.body["vgpu_name"])
    return Reply({"vgpu_id": vgpu.id}, until=cloud.now + cloud.switches.reserve_seconds)


def reserve_at_vm(cloud: Cloud, call: Call) -> Reply:
    """Reserve a vGPU and attach it to a VM in one call."""
    vm = cloud.idle_vm(call)
    _attachable(cloud, vm)
    vgpu = reserve(cloud, call, vm.location, call.at("gpu_id"), call.body["vgpu_name"], vm=vm)
    return Reply({"vgpu_id": vgpu.id}, until=_occupy(cloud, vm, "ATTACHING_GPU", "attach"))


def _attachable(cloud: Cloud, vm: Vm) -> None:
    if cloud.switches.attach_needs_halted and vm.status != "HALTED":
        raise conflict(f"Virtual machine {vm.name} is {vm.status}, it must be HALTED")
    if vm.status not in ("HALTED", "RUNNING"):
        raise conflict(f"Virtual machine {vm.name} is {vm.status}")
    limit = cloud.switches.vm_vgpu_limit
    if limit and len(cloud.vgpus_of(vm)) >= limit:
        raise bad(f"Virtual machine {vm.name} has {limit} GPUs, which is the limit")


def _occupy(cloud: Cloud, vm: Vm, status: str, action: str) -> float:
    """Keep the VM busy for the time of an attach or detach; return when it ends."""
    switches = cloud.switches
    seconds = switches.attach_seconds if action == "attach" else switches.detach_seconds
    cloud.begin(vm, status, "rested", seconds, vm.status)
    return cloud.now + seconds


def list_vgpus(cloud: Cloud, call: Call) -> Reply:
    """Answer a page of the customer's vGPUs in a location; limit 0 asks for all."""
    location = cloud.location(call)
    limit, start = call.required("limit"), call.required("start_after")
    if limit < 0 or start < 0:
        raise bad("limit and start_after cannot be negative")
    if cap := cloud.switches.page_cap:
        limit = min(limit or cap, cap)
    binned = True if call.flag("only_deleted") else None if call.flag("include_deleted") else False
    count = cloud.store.count(Vgpu, location=location, parent=call.customer, binned=binned)
    found = cloud.store.find(
        Vgpu,
        location=location,
        parent=call.customer,
        binned=binned,
        limit=limit or -1,
        offset=start,
    )
    pages = -(-count // limit) if limit else min(count, 1)
    return Reply(
        {
            "pagination": {"limit": limit, "pages": pages, "count": count},
            "data": _items(cloud, call, location, found),
        }
    )


def _items(cloud: Cloud, call: Call, location: str, found: list[Vgpu]) -> list[dict[str, object]]:
    customer = cloud.customer(call)
    cards = {card.id: card for card in cloud.store.find(Card, location=location)}
    spaces = {one.id: one.name for one in cloud.store.find(Cloudspace, location=location)}
    vms = {vm.id: vm for vm in cloud.store.outlines(Vm, location=location)}
    rows: list[dict[str, object]] = []
    for vgpu in found:
        vm = vms.get(vgpu.link)
        card = cards.get(vgpu.gpu_id)
        rows.append(
            {
                "vgpu_id": vgpu.id,
                "vgpu_name": vgpu.name,
                "gpu_id": vgpu.gpu_id,
                "description": f"{card.vendor} {card.model}" if card else "",
                "status": vgpu.status,
                "virtual_machine": _vm(cloud, vm, spaces),
                "deletion_time": int(vgpu.binned),
                "location": location,
                "account_id": customer.account_id,
                "customer_id": customer.id,
                "customer_name": customer.name,
            }
        )
    return rows


def _vm(cloud: Cloud, vm: Outline | None, spaces: dict[str, str]) -> dict[str, object] | None:
    if vm is not None:
        return {
            "id": int(vm.id),
            "name": vm.name,
            "cloudspace_id": vm.parent,
            "cloudspace_name": spaces.get(vm.parent, ""),
        }
    match cloud.switches.unattached_vm:
        case "empty":
            return {}
        case "null-id":
            return {"id": None, "name": None, "cloudspace_id": None, "cloudspace_name": None}
    return None


def _find(cloud: Cloud, call: Call, location: str) -> Vgpu:
    vgpu = cloud.store.get(Vgpu, location, call.at("vgpu_id"))
    if vgpu is None or vgpu.parent != call.customer:
        raise not_found(f"vGPU with id {call.at('vgpu_id')}")
    return vgpu


def attach(cloud: Cloud, call: Call) -> Reply:
    """Attach a vGPU to a VM of its location."""
    vm = cloud.idle_vm(call)
    vgpu = cloud.idle(_find(cloud, call, vm.location))
    if vgpu.binned:
        raise bad(f"vGPU {vgpu.name} is in the recycle bin")
    if vgpu.link:
        raise conflict(f"vGPU {vgpu.name} is already attached to virtual machine {vgpu.link}")
    _attachable(cloud, vm)
    linked = replace(vgpu, link=vm.id)
    cloud.begin(linked, "ATTACHING", "assigned", cloud.switches.attach_seconds)
    ledger.attached(cloud.store, vgpu, vm.id, vm.parent, cloud.now)
    return unspecified(_occupy(cloud, vm, "ATTACHING_GPU", "attach"))


def detach(cloud: Cloud, call: Call) -> Reply:
    """Detach a vGPU from a VM; the reservation stays and costs."""
    vm = cloud.idle_vm(call)
    vgpu = cloud.idle(_find(cloud, call, vm.location))
    if vgpu.link != vm.id:
        raise bad(f"vGPU {vgpu.name} is not attached to virtual machine {vm.name}")
    _detachable(cloud, vm)
    cloud.begin(vgpu, "DETACHING", "freed", cloud.switches.detach_seconds)
    return unspecified(_occupy(cloud, vm, "DETACHING_GPU", "detach"))


def _detachable(cloud: Cloud, vm: Vm) -> None:
    if cloud.switches.attach_needs_halted and vm.status == "RUNNING":
        raise conflict(f"Virtual machine {vm.name} is RUNNING, its GPUs cannot be removed")


def delete(cloud: Cloud, call: Call) -> Reply:
    """Move a vGPU to the recycle bin, where it still costs, or end it for good."""
    location = cloud.location(call)
    vgpu = cloud.idle(_find(cloud, call, location))
    permanently = call.flag("permanently")
    if vgpu.binned and not permanently:
        return unspecified()
    until = cloud.now + cloud.switches.vgpu_delete_seconds
    vm = cloud.store.get(Vm, location, vgpu.link) if vgpu.link else None
    if vm and not vgpu.binned_with_vm:
        if not call.flag("detach"):
            raise conflict(f"vGPU {vgpu.name} is attached to virtual machine {vm.name}")
        _detachable(cloud, cloud.idle(vm))
        cloud.begin(vm, "DETACHING_GPU", "rested", cloud.switches.vgpu_delete_seconds, vm.status)
    ends = "destroyed" if permanently else "binned"
    cloud.begin(vgpu, "DELETING", ends, cloud.switches.vgpu_delete_seconds)
    return unspecified(until)


def restore(cloud: Cloud, call: Call) -> Reply:
    """Bring a vGPU back from the recycle bin, unattached."""
    location = cloud.location(call)
    vgpu = _find(cloud, call, location)
    if not vgpu.binned:
        raise bad(f"vGPU {vgpu.name} is not in the recycle bin")
    cloud.idle(vgpu)
    ledger.detached(cloud.store, vgpu, cloud.now)
    back = replace(vgpu, link="", binned=0.0, binned_with_vm=False)
    cloud.begin(back, "RESTORING", "created", cloud.switches.restore_seconds)
    return unspecified(cloud.now + cloud.switches.restore_seconds)


HANDLERS = {
    "GET {L}/gpus": list_profiles,
    "POST {L}/gpus/{gpu_id}": reserve_at_location,
    "POST {VM}/gpus/{gpu_id}": reserve_at_vm,
    "GET {L}/vgpus": list_vgpus,
    "POST {L}/vgpus/{vgpu_id}": restore,
    "DELETE {L}/vgpus/{vgpu_id}": delete,
    "POST {VM}/vgpus/{vgpu_id}": attach,
    "DELETE {VM}/vgpus/{vgpu_id}": detach,
}
