"""What is told of virtual machines: one, and lists with their different shape."""

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime

from vcosim.cloud import Cloud
from vcosim.records import Card, Cloudspace, Group, Vgpu, Vm
from vcosim.reply import Reply
from vcosim.request import Call


def stamp(at: float) -> str | None:
    """Return a time as ISO 8601 text; None for never."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") if at else None


def addresses(cloud: Cloud, space: Cloudspace) -> Iterator[str]:
    """Yield the free private addresses of a cloudspace in order; the first host is its gateway."""
    present = cloud.store.outlines(Vm, location=space.location, parent=space.id, binned=False)
    used = {vm.link for vm in present}
    used |= {
        leg.address
        for nested in cloud.store.find(Cloudspace, location=space.location)
        for leg in nested.uplinks
        if nested.nested_in == space.id
    }
    hosts = ipaddress.ip_network(space.private_network).hosts()
    next(hosts)
    return (str(host) for host in hosts if str(host) not in used)


def live_vms(cloud: Cloud, space: Cloudspace) -> list[Vm]:
    """Return the VMs of a cloudspace that are not in the recycle bin."""
    return cloud.store.find(Vm, location=space.location, parent=space.id, binned=False)


def list_vms(cloud: Cloud, call: Call) -> Reply:
    """Answer the VMs of a cloudspace; the items differ from the answer for one VM."""
    space = cloud.cloudspace(call)
    binned = True if call.flag("only_deleted") else None if call.flag("include_deleted") else False
    found = cloud.store.find(Vm, location=space.location, parent=space.id, binned=binned)
    cards = {card.id: card for card in cloud.store.find(Card, location=space.location)}
    by_vm: dict[str, list[Vgpu]] = {}
    for vgpu in cloud.store.find(Vgpu, location=space.location):
        by_vm.setdefault(vgpu.link, []).append(vgpu)
    rows = [_item(vm, space, devices(by_vm.get(vm.id, []), cards)) for vm in found]
    return Reply({"result": rows})


def _item(vm: Vm, space: Cloudspace, devices: list[dict[str, str]]) -> dict[str, object]:
    return {
        "vm_id": int(vm.id),
        "name": vm.name,
        "cloudspace_id": space.number,
        "status": vm.status,
        "deletion_time": stamp(vm.binned),
        "stack_id": 1 if vm.status == "RUNNING" else None,
        "creation_time": vm.created,
        "update_time": vm.updated,
        "reference_id": None,
        "image_id": int(vm.image_id),
        "storage": sum(size for _, _, size in vm.disks),
        "vcpus": vm.vcpus,
        "memory": vm.memory,
        "appliance": False,
        "disks": [number for number, _, _ in vm.disks],
        "tpm_enabled": vm.tpm,
        "backup_status": None,
        "network_interfaces": [
            {
                "device_name": f"vm-{vm.id}-0",
                "mac_address": vm.mac_address,
                "ip_address": vm.ip_address,
                "network_id": space.number,
                "model": "virtio",
                "external_network_type": None,
                "external_cloudspace_id": None,
            }
        ],
        "devices": devices,
    }


def devices(vgpus: list[Vgpu], cards: dict[str, Card]) -> list[dict[str, str]]:
    """Return what a VM shows of its vGPUs."""
    return [
        {
            "reference_id": vgpu.id,
            "type": "VGPU",
            "description": f"{cards[vgpu.gpu_id].vendor} {cards[vgpu.gpu_id].model}"
            if vgpu.gpu_id in cards
            else vgpu.gpu_id,
        }
        for vgpu in vgpus
        if vgpu.status in ("ASSIGNED", "DETACHING") or vgpu.binned_with_vm
    ]


def agent_status(cloud: Cloud, vm: Vm) -> str:
    """Return RUNNING when the guest agent of a VM answers."""
    ready = vm.running_since + cloud.switches.agent_seconds
    up = vm.status == "RUNNING" and vm.agent_enabled and cloud.now >= ready
    return "RUNNING" if up else "NOT_RUNNING"


def get_vm(cloud: Cloud, call: Call) -> Reply:
    """Answer one VM; 404 once it is in the recycle bin."""
    vm = cloud.vm(call)
    groups = cloud.store.find(Group, location=vm.location, parent=vm.parent)
    held = cloud.vgpus_of(vm)
    cards = {
        vgpu.gpu_id: card
        for vgpu in held
        if (card := cloud.store.get(Card, vm.location, vgpu.gpu_id))
    }
    space = cloud.cloudspace(call)
    return Reply(
        {
            **_identity(cloud, vm),
            "anti_affinity_group_ids": [one.name for one in groups if int(vm.id) in one.members],
            "disks": [_disk(vm, order) for order in range(len(vm.disks))],
            "os_accounts": [{"login": vm.login, "password": vm.password}],
            "network_interfaces": [
                {
                    "device_name": f"vm-{vm.id}-0",
                    "mac_address": vm.mac_address,
                    "ip_address": vm.ip_address,
                    "network_id": space.number,
                    "nic_type": "INTERNAL",
                    "model": "virtio",
                    "external_cloudspace_id": None,
                }
            ],
            "devices": devices(held, cards),
        }
    )


def _identity(cloud: Cloud, vm: Vm) -> dict[str, object]:
    return {
        "backup_policies": [],
        "name": vm.name,
        "vm_id": int(vm.id),
        "description": vm.description,
        "boot_disk_id": vm.disks[0][0],
        "cloudspace_id": vm.parent,
        "status": vm.status,
        "update_time": vm.updated,
        "creation_time": vm.created,
        "vcpus": vm.vcpus,
        "storage": sum(size for _, _, size in vm.disks),
        "memory": vm.memory,
        "agent_status": agent_status(cloud, vm),
        "image_id": int(vm.image_id),
        "locked": False,
        "stack_id": 1 if vm.status == "RUNNING" else None,
        "impact_alert_hook": None,
        "os_image_name": vm.image_name,
        "hostname": vm.hostname,
        "appliance": False,
        "cpus_pin_status": False,
        "boot_type": vm.boot_type,
        "cpu_topology": {"cores": vm.vcpus, "threads": 1, "sockets": 1},
        "tpm_enabled": vm.tpm,
    }


def _disk(vm: Vm, order: int) -> dict[str, object]:
    number, kind, size = vm.disks[order]
    return {
        "status": "ASSIGNED",
        "disk_size": size,
        "disk_name": "Boot disk" if kind == "BOOT" else f"Data disk {order}",
        "description": "",
        "exposed": False,
        "pci_bus": 0,
        "pci_slot": 6 + order,
        "disk_id": number,
        "disk_type": kind,
        "order": str(order),
    }


HANDLERS = {"GET {CS}/vms": list_vms, "GET {VM}": get_vm}
