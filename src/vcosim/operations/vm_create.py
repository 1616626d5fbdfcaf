"""Making virtual machines."""

import hashlib
import ipaddress

import msgspec
import yaml

from vcosim.cloud import Cloud, hex_id
from vcosim.operations import images, vgpus
from vcosim.operations.vms import addresses
from vcosim.records import Cloudspace, Image, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict
from vcosim.request import Call

MOST_VCPUS = 64
MOST_MEMORY = 1024 * 1024
MOST_DISK = 2000
MOST_DISKS = 25
RESERVED_ADDRESSES = 5


def create_vm(cloud: Cloud, call: Call) -> Reply:
    """Deploy a VM from an image, started or not, optionally with one new vGPU.

    Everything is checked before anything is made: a refusal leaves nothing behind.
    """
    space = cloud.live_cloudspace(call)
    image = _image(cloud, call, space)
    _check_name(cloud, call, space)
    _check_size(call, image)
    userdata = _userdata(cloud, call)
    gpu = _wanted_gpu(cloud, call, space)
    vm = _vm(cloud, call, space, image, userdata)
    until = _deploy(cloud, vm, start=call.flag("start_vm"))
    if gpu:
        vgpus.reserve(cloud, call, space.location, gpu, call.body["vgpu_name"], vm=vm)
    return Reply({"vm_id": int(vm.id)}, until=until)


def _image(cloud: Cloud, call: Call, space: Cloudspace) -> Image:
    for other in ("cdrom_id", "boot_disk_id", "snapshot_id"):
        if call.query.get(other):
            raise RefusedError(404, f"No {other} {call.query[other]} in {space.location}")
    number = call.number("image_id")
    if number is None:
        raise bad("One of image_id, cdrom_id, boot_disk_id or snapshot_id must be given")
    image = images.find(cloud, call, str(number), space.location)
    if image.status != "CREATED":
        raise bad(f"Image {image.name} is {image.status} and cannot be used")
    if call.text("boot_type") != image.boot_type:
        raise bad("Selected boot type can not be different from image boot type")
    return image


def _check_name(cloud: Cloud, call: Call, space: Cloudspace) -> None:
    name = call.text("name")
    if not name.strip():
        raise bad("Virtual machine name cannot be empty")
    same = cloud.store.find(Vm, parent=space.id, name=name)
    if any(not one.binned or cloud.switches.bin_reserves_names for one in same):
        raise conflict(f"Selected name already exists: {name}")
    network = ipaddress.ip_network(space.private_network)
    present = cloud.store.count(Vm, location=space.location, parent=space.id, binned=False)
    if present >= network.num_addresses - RESERVED_ADDRESSES:
        raise bad(f"Cloudspace {space.name} has no room for another virtual machine")


def _check_size(call: Call, image: Image) -> None:
    vcpus, memory = call.required("vcpus"), call.required("memory")
    if not 1 <= vcpus <= MOST_VCPUS:
        raise bad(f"vcpus must be from 1 to {MOST_VCPUS}, not {vcpus}")
    if not image.memory <= memory <= MOST_MEMORY or memory % 2:
        wanted = f"an even number of MiB from {image.memory} to {MOST_MEMORY}"
        raise bad(f"memory must be {wanted}, not {memory}")
    size = call.number("disk_size")
    if size is None:
        raise bad("disk_size is required with image_id")
    if not image.boot_disk_size <= size <= MOST_DISK:
        raise bad(f"disk_size must be from {image.boot_disk_size} (image) to {MOST_DISK} GiB")
    data = call.many("data_disks")
    if len(data) >= MOST_DISKS or any(not 1 <= one <= MOST_DISK for one in data):
        raise bad(f"data_disks: at most {MOST_DISKS - 1} of 1 to {MOST_DISK} GiB")


def _userdata(cloud: Cloud, call: Call) -> tuple[dict[str, object] | None, str]:
    text = call.text("user_data")
    if text and cloud.switches.user_data_mapping:
        try:
            parsed = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError) as error:
            raise bad("Userdata is not a valid yaml string") from error
        if not isinstance(parsed, dict):
            raise bad("Userdata should be a dictionary")
    return call.body.get("userdata") or None, text


def _wanted_gpu(cloud: Cloud, call: Call, space: Cloudspace) -> str:
    gpu, name = call.body.get("gpu_id", ""), call.body.get("vgpu_name", "")
    if bool(gpu) != bool(name):
        raise bad("gpu_id and vgpu_name must be given together")
    if gpu:
        vgpus.check_room(cloud, call, space.location, gpu, name)
    return str(gpu)


def _address(cloud: Cloud, call: Call, space: Cloudspace) -> str:
    wanted = call.text("private_ip")
    found = next((one for one in addresses(cloud, space) if wanted in ("", one)), None)
    if found is None and wanted:
        raise bad(f"IP address {wanted} is not available in {space.private_network}")
    if found is None:
        raise RefusedError(503, f"No free address in {space.private_network}")
    return found


def _vm(
    cloud: Cloud,
    call: Call,
    space: Cloudspace,
    image: Image,
    userdata: tuple[dict[str, object] | None, str],
) -> Vm:
    address = _address(cloud, call, space)
    number = cloud.store.number(f"vm:{space.location}", first=1001)
    sizes = [
        ("BOOT", call.number("disk_size") or 0),
        *(("DATA", n) for n in call.many("data_disks")),
    ]
    first = f"disk:{space.location}"
    return Vm(
        id=str(number),
        location=space.location,
        parent=space.id,
        name=call.text("name"),
        created=cloud.now,
        description=call.text("description"),
        hostname=call.text("hostname") or call.text("name"),
        vcpus=call.required("vcpus"),
        memory=call.required("memory"),
        image_id=image.id,
        image_name=image.name,
        boot_type=image.boot_type,
        disks=tuple((cloud.store.number(first, first=5001), kind, size) for kind, size in sizes),
        link=address,
        mac_address=_mac(space.location, number),
        agent_enabled=call.flag("enable_vm_agent"),
        password=hex_id(f"{space.id}:{number}")[:12],
        userdata=userdata[0],
        userdata_text=userdata[1],
        userdata_parameters=call.body.get("UserDataParameters", {}),
        tpm=bool(call.text("tpm_secret")),
    )


def _mac(location: str, number: int) -> str:
    tail = hashlib.sha256(f"{location}:{number}".encode()).hexdigest()
    return ":".join(["52", "54", "00", tail[0:2], tail[2:4], tail[4:6]])


def _deploy(cloud: Cloud, vm: Vm, *, start: bool) -> float:
    deployed = cloud.now + cloud.switches.deploy_seconds
    running = deployed + cloud.switches.start_seconds
    ends = repr(running) if start else ""
    cloud.begin(vm, "DEPLOYING", "deployed", cloud.switches.deploy_seconds, ends)
    return running if start else deployed


def guest_userdata(vm: Vm) -> dict[str, object]:
    """Return what a guest reads on its metadata disk, and where the caller had put it.

    A body object comes out as cloud-config; a query text comes out as it went in. With both,
    the body counts.
    """
    if vm.userdata is not None:
        plain = msgspec.to_builtins(vm.userdata)
        text = "#cloud-config\n" + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        return {"source": "body", "userdata": plain, "text": text}
    if vm.userdata_text:
        return {"source": "query", "userdata": vm.userdata_text, "text": vm.userdata_text}
    return {"source": "none", "userdata": None, "text": ""}


HANDLERS = {"POST {CS}/vms": create_vm}
