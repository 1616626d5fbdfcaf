"""Uploads: their parts, their life, and what becomes of them."""

import hashlib
from typing import Any

from tests.unit.vcosim.portal import BE, L, Portal
from vcosim.records import Image

IMAGES = f"{L}/vm-images"
QUERY = {
    "name": "mine",
    "memory": 512,
    "boot_disk_size": 5,
    "boot_type": "bios",
    "os_type": "Linux",
    "os_name": "Linux - other",
}


async def begun(portal: Portal) -> dict[str, Any]:
    found: dict[str, Any] = await portal.ok("POST", f"{IMAGES}/upload-vm-image", file_name="f")
    return found


async def send(portal: Portal, upload: dict[str, Any], part: int, content: bytes) -> Any:  # noqa: ANN401 - JSON
    return await portal.http.put(
        f"{IMAGES}/{upload['upload_id']}/upload-part/{part}",
        params={"object_name": upload["object_name"]},
        content=content,
        headers={"Content-Type": "application/octet-stream"},
    )


async def end(portal: Portal, upload: dict[str, Any], etags: dict[int, str]) -> int:
    listed = [{"part_number": n, "etag": etag} for n, etag in etags.items()]
    body = {"object_name": upload["object_name"], "uploaded_parts": listed}
    path = f"{IMAGES}/{upload['upload_id']}/finish-image-upload"
    key: int = (await portal.ok("POST", path, body, **QUERY))["image_id"]
    portal.advance()
    return key


async def test_parts_count_by_their_number_and_the_last_sending() -> None:
    """In whatever order they come; the checksum is an object store's."""
    portal = Portal(upload_part_size=4)
    upload = await begun(portal)
    assert upload["part_size"] == 4
    for part, content in ((2, b"zz"), (1, b"oops"), (1, b"abcd")):
        await send(portal, upload, part, content)
    digests = {1: hashlib.md5(b"abcd"), 2: hashlib.md5(b"zz")}
    key = await end(portal, upload, {n: one.hexdigest() for n, one in reversed(digests.items())})
    whole = hashlib.md5(digests[1].digest() + digests[2].digest()).hexdigest()
    made = portal.simulation.store.get(Image, BE, str(key))
    assert made is not None
    assert (made.bytes, made.checksum) == (6, f"{whole}-2")
    await portal.close()


async def test_an_upload_is_forgotten_after_its_life() -> None:
    """With a 404, like one that never was."""
    portal = Portal(upload_life_seconds=100)
    upload = await begun(portal)
    portal.advance(99)
    assert (await send(portal, upload, 1, b"x")).status_code == 200
    portal.advance(1)
    assert (await send(portal, upload, 1, b"x")).status_code == 404
    await portal.close()


async def test_an_import_may_fail_or_get_another_boot_type() -> None:
    """On order."""
    portal = Portal(image_ends="ERROR", image_boot_type="uefi")
    upload = await begun(portal)
    etag = (await send(portal, upload, 1, b"x")).json()["etag"]
    key = await end(portal, upload, {1: etag})
    made = await portal.ok("GET", f"{IMAGES}/{key}")
    assert (made["status"], made["boot_type"]) == ("ERROR", "uefi")
    await portal.ok("DELETE", f"{IMAGES}/{key}", permanently=True)
    await portal.close()
