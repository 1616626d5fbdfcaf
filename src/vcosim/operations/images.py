"""VM images: list, get, create by URL or in parts, delete, restore."""

import hashlib

from msgspec.structs import replace

from vcosim import lifecycle
from vcosim.cloud import Cloud, hex_id
from vcosim.records import Image, Upload, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict, done, not_found, unspecified
from vcosim.request import Call

CAPABILITIES = (
    "add_memory", "add_vcpu", "remove_vcpu", "add_disk", "remove_disk", "add_nic", "remove_nic",
)  # fmt: skip


def visible(cloud: Cloud, location: str, customer: str) -> list[Image]:
    """Return the public images of a location and the customer's own."""
    found = cloud.store.find(Image, location=location, binned=False)
    return [image for image in found if image.parent in ("", customer)]


def find(cloud: Cloud, call: Call, key: str, location: str, *, binned: bool = False) -> Image:
    """Return an image the customer may see, else refuse with 404."""
    image = cloud.store.get(Image, location, key)
    if image is None or image.parent not in ("", call.customer) or (image.binned and not binned):
        raise not_found(f"Image with id {key}")
    return image


def list_images(cloud: Cloud, call: Call) -> Reply:
    """Answer all images of a location; the list has neither boot_type nor os_name."""
    found = visible(cloud, cloud.location(call), call.customer)
    return Reply({"result": [_item(image, call) for image in found]})


def _item(image: Image, call: Call) -> dict[str, object]:
    return {
        "image_id": int(image.id),
        "status": image.status,
        "name": image.name,
        "description": image.description,
        "os_type": image.os_type,
        "boot_disk_size": image.boot_disk_size,
        "size": image.size,
        "memory": image.memory,
        "tags": image.tags,
        "public": not image.parent,
        "categories": "",
        "docs_url": None,
        "logo": "" if call.flag("include_logo") else None,
    }


def get_image(cloud: Cloud, call: Call) -> Reply:
    """Answer one image."""
    image = find(cloud, call, call.at("image_id"), cloud.location(call))
    return Reply(
        {
            "image_id": int(image.id),
            "status": image.status,
            "name": image.name,
            "description": image.description,
            "os_type": image.os_type,
            "os_name": image.os_name,
            "boot_disk_size": image.boot_disk_size,
            "boot_type": image.boot_type,
            "size": image.size,
            "memory": image.memory,
            "tags": image.tags,
            "capabilities": {one: image.capabilities.get(one, True) for one in CAPABILITIES},
            "meneja_image_id": image.meneja_image_id,
            "categories": [],
            "docs_url": None,
            "user_data_templates": [],
            "logo": "" if call.flag("include_logo") else None,
        }
    )


def create_by_url(cloud: Cloud, call: Call) -> Reply:
    """Import an image from a URL (which is noted, not fetched)."""
    if not call.text("url").startswith(("http://", "https://", "ftp://")):
        raise bad(f"Unsupported image url {call.text('url')!r}")
    return _create(cloud, call, cloud.location(call), Image(id=""))


def _create(cloud: Cloud, call: Call, location: str, begun: Image) -> Reply:
    if call.required("memory") < 1 or call.required("boot_disk_size") < 1:
        raise bad("memory and boot_disk_size must be positive")
    number = cloud.store.number(f"image:{location}", first=500)
    tag = hex_id(f"image:{call.customer}:{call.text('name')}")
    forced = cloud.switches.image_boot_type
    image = replace(
        begun,
        id=str(number),
        location=location,
        parent=call.customer,
        name=call.text("name"),
        created=cloud.now,
        os_type=call.text("os_type"),
        os_name=call.text("os_name"),
        boot_type=call.text("boot_type") if forced == "asked" else forced,
        boot_disk_size=call.required("boot_disk_size"),
        memory=call.required("memory"),
        size=max(1, begun.bytes >> 30),
        tags=",".join(filter(None, (call.text("tags"), f"image:{tag}"))),
        capabilities={one: call.flag(one) for one in CAPABILITIES},
        meneja_image_id=tag,
        url=call.text("url"),
    )
    seconds = cloud.switches.image_seconds
    cloud.begin(image, "CREATING", "created", seconds, cloud.switches.image_ends)
    until = cloud.now + seconds
    if cloud.switches.image_create_reply == "none":
        return unspecified(until)
    return Reply({"image_id": number}, until=until)


def start_upload(cloud: Cloud, call: Call) -> Reply:
    """Begin an upload in parts."""
    location = cloud.location(call)
    key = cloud.fresh("upload")
    upload = Upload(
        id=key,
        location=location,
        parent=call.customer,
        name=call.text("file_name"),
        created=cloud.now,
        object_name=f"{key}/{call.text('file_name')}",
    )
    cloud.store.put(upload)
    return Reply(
        {
            "upload_id": key,
            "object_name": upload.object_name,
            "part_size": cloud.switches.upload_part_size,
        }
    )


def _upload(cloud: Cloud, call: Call, object_name: str) -> Upload:
    location = cloud.location(call)
    upload = cloud.store.get(Upload, location, call.at("upload_id"))
    if upload is None or upload.parent != call.customer or _forgotten(cloud, upload):
        raise not_found(f"Upload with id {call.at('upload_id')}")
    if upload.object_name != object_name:
        raise bad(f"Upload {upload.id} is for object {upload.object_name!r}, not {object_name!r}")
    return upload


def _forgotten(cloud: Cloud, upload: Upload) -> bool:
    life = cloud.switches.upload_life_seconds
    return life > 0 and upload.created + life <= cloud.now


def upload_part(cloud: Cloud, call: Call) -> Reply:
    """Take one part; the etag (md5) comes in the header and in the body.

    The bytes are counted, not kept. The same part may be sent again: the last one counts.
    """
    upload = _upload(cloud, call, call.text("object_name"))
    part = call.at("part_id")
    if not part.isdigit() or int(part) < 1:
        raise bad(f"Part number {part!r} must be a positive integer")
    if not call.raw:
        raise bad(f"Part {part} is empty")
    etag = hashlib.md5(call.raw, usedforsecurity=False).hexdigest()
    entry = (etag, len(call.raw))
    cloud.store.put(replace(upload, parts={**upload.parts, str(int(part)): entry}))
    return Reply({"etag": etag}, headers={"ETag": f'"{etag}"'})


def finish_upload(cloud: Cloud, call: Call) -> Reply:
    """Put the parts together and import the image."""
    upload = _upload(cloud, call, call.body["object_name"])
    listed = {
        str(one["part_number"]): one["etag"].strip('"') for one in call.body["uploaded_parts"]
    }
    if not listed:
        raise bad("uploaded_parts is empty")
    for part, etag in listed.items():
        if upload.parts.get(part, ("", 0))[0] != etag:
            raise bad(f"Part {part} with etag {etag!r} was not uploaded")
    parts = [upload.parts[part] for part in sorted(listed, key=int)]
    cloud.store.drop(upload)
    return _create(cloud, call, upload.location, _put_together(parts))


def _put_together(parts: list[tuple[str, int]]) -> Image:
    digests = b"".join(bytes.fromhex(etag) for etag, _ in parts)
    whole = hashlib.md5(digests, usedforsecurity=False).hexdigest()
    size = sum(length for _, length in parts)
    return Image(id="", bytes=size, checksum=f"{whole}-{len(parts)}")


def delete_image(cloud: Cloud, call: Call) -> Reply:
    """Move an own image to the recycle bin, or remove it for good when no VM uses it."""
    location = cloud.location(call)
    image = cloud.idle(find(cloud, call, call.at("image_id"), location, binned=True))
    if not image.parent:
        raise RefusedError(403, f"Image {image.name} is public and cannot be deleted")
    if not call.flag("permanently"):
        lifecycle.rest(cloud.store, image, cloud.now, "DELETED", binned=image.binned or cloud.now)
        return done()
    if any(vm.image_id == image.id for vm in cloud.store.find(Vm, location=location)):
        raise conflict(f"Image {image.name} is used by virtual machines")
    cloud.store.drop(image)
    return done()


def restore_image(cloud: Cloud, call: Call) -> Reply:
    """Bring an image back from the recycle bin."""
    image = find(cloud, call, call.at("image_id"), cloud.location(call), binned=True)
    if not image.binned:
        raise bad(f"Image {image.name} is not in the recycle bin")
    lifecycle.rest(cloud.store, image, cloud.now, "CREATED", binned=0.0)
    return done()


HANDLERS = {
    "GET {L}/vm-images": list_images,
    "POST {L}/vm-images": create_by_url,
    "POST {L}/vm-images/upload-vm-image": start_upload,
    "PUT {L}/vm-images/{upload_id}/upload-part/{part_id}": upload_part,
    "POST {L}/vm-images/{upload_id}/finish-image-upload": finish_upload,
    "GET {L}/vm-images/{image_id}": get_image,
    "DELETE {L}/vm-images/{image_id}": delete_image,
    "PUT {L}/vm-images/{image_id}/restore": restore_image,
}
