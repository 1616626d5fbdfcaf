"""The recycle bin of a customer."""

from vcosim.cloud import Cloud
from vcosim.operations.cloudspaces import health
from vcosim.operations.vms import stamp
from vcosim.records import Card, Cloudspace, Image, Vgpu, Vm
from vcosim.reply import Reply
from vcosim.request import Call


def recycle_bin(cloud: Cloud, call: Call) -> Reply:
    """Answer all that was deleted but not for good, in all locations that answer."""
    names = list(cloud.customer(call).locations)
    answering = {name for name in names if name not in call.hidden}
    spaces = [
        one
        for one in cloud.store.find(Cloudspace, parent=call.customer)
        if one.location in answering
    ]
    result: dict[str, list[dict[str, object]]] = {
        "objectspaces": [],
        "cloudspaces": [_cloudspace(one) for one in spaces if one.binned],
        "vms": [row for space in spaces for row in _vms(cloud, space)],
        "buckets": [],
        "disks": [],
        "cdrom_images": [],
        "images": [row for name in answering for row in _images(cloud, call, name)],
        "vgpus": [row for name in answering for row in _vgpus(cloud, call, name)],
    }
    return Reply({"locations": health(names, call.hidden), "result": result})


def _cloudspace(one: Cloudspace) -> dict[str, object]:
    return {
        "cloudspace_name": one.name,
        "cloudspace_id": one.id,
        "location": one.location,
        "deletion_time": stamp(one.binned),
    }


def _vms(cloud: Cloud, space: Cloudspace) -> list[dict[str, object]]:
    found = cloud.store.find(Vm, location=space.location, parent=space.id, binned=True)
    return [
        {
            "vm_name": vm.name,
            "vm_id": int(vm.id),
            "cloudspace_name": space.name,
            "cloudspace_id": space.id,
            "cloudspace_status": space.status,
            "location": space.location,
            "deletion_time": stamp(vm.binned),
        }
        for vm in found
    ]


def _images(cloud: Cloud, call: Call, location: str) -> list[dict[str, object]]:
    found = cloud.store.find(Image, location=location, parent=call.customer, binned=True)
    return [
        {
            "image_id": int(image.id),
            "status": image.status,
            "image_name": image.name,
            "description": image.description,
            "os_type": image.os_type,
            "boot_disk_size": image.boot_disk_size,
            "size": image.size,
            "memory": image.memory,
            "tags": image.tags,
            "location": location,
        }
        for image in found
    ]


def _vgpus(cloud: Cloud, call: Call, location: str) -> list[dict[str, object]]:
    cards = {card.id: card for card in cloud.store.find(Card, location=location)}
    found = cloud.store.find(Vgpu, location=location, parent=call.customer, binned=True)
    return [
        {
            "vgpu_id": vgpu.id,
            "vgpu_name": vgpu.name,
            "gpu_id": vgpu.gpu_id,
            "description": f"{cards[vgpu.gpu_id].vendor} {cards[vgpu.gpu_id].model}"
            if vgpu.gpu_id in cards
            else "",
            "location": location,
            "deletion_time": stamp(vgpu.binned),
        }
        for vgpu in found
    ]


HANDLERS = {"GET {C}/recycle-bin": recycle_bin}
