"""VM images of a location."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from capvco.vco.call import Call, Pace, QueryValue, Stream, read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model, Result
from capvco.vco.errors import UnknownOutcome
from capvco.vco.models import Image, ImageUpload

_LIST = "/customers/{customer_id}/locations/{location}/vm-images"
_ONE = _LIST + "/{image_id}"
_UPLOAD = _LIST + "/upload-vm-image"
_PART = _LIST + "/{upload_id}/upload-part/{part_id}"
_FINISH = _LIST + "/{upload_id}/finish-image-upload"

BootType = Literal["bios", "uefi", "uefi-secure-boot"]
CREATED = "CREATED"
"""Status of an image that VMs can be made of."""
_ENDED = frozenset({"DISABLING", "DISABLED", "DELETING", "DELETED", "DESTROYING", "DESTROYED"})


def has_failed(status: str) -> bool:
    """Tell whether an image with this status will never become CREATED.

    The words for a failed import are not known, so this wants to be sure: an unknown word is taken
    for a step on the way.
    """
    word = status.upper()
    return word in _ENDED or "ERROR" in word or "FAIL" in word


class NewImage(Model, frozen=True):
    """What an image is made with. The password of its login stays out of the repr."""

    name: str
    memory: int
    """Least memory of a VM, in MiB."""
    boot_disk_size: int
    """Smallest boot disk, in GiB."""
    boot_type: BootType
    os_type: str = "Linux"
    os_name: str = "Linux - other"
    tags: str | None = None
    username: str | None = None
    password: str | None = None
    md5_sum: str | None = None
    hot_plug: bool = True
    """Whether memory, CPUs, disks and NICs can be added and removed while a VM runs."""

    def __repr__(self) -> str:
        return f"NewImage(name={self.name!r}, boot_type={self.boot_type!r})"

    def query(self) -> dict[str, QueryValue]:
        """Render as the API wants it."""
        plugs = ("add_memory", "add_vcpu", "remove_vcpu", "add_disk", "remove_disk", "add_nic")
        plain = msgspec.structs.asdict(self)
        hot_plug = plain.pop("hot_plug")
        return {**plain, **dict.fromkeys((*plugs, "remove_nic"), hot_plug)}

    @property
    def hidden(self) -> tuple[str, ...]:
        """Texts that must not be shown."""
        return (self.password,) if self.password else ()


class Part(Model, frozen=True):
    """An uploaded part, as the end of an upload lists it."""

    part_number: int
    etag: str


class _Made(Model, frozen=True):
    image_id: int


class Images:
    """The images of a customer and the public ones."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, location: str) -> tuple[Image, ...]:
        """List all images of a location, without `os_name` and `boot_type`."""
        call = read(_LIST, path={"location": location})
        return (await self._client.send(call, Result[Image])).result

    async def get(self, location: str, image_id: int) -> Image:
        """Read one image."""
        call = read(_ONE, path={"location": location, "image_id": image_id})
        return await self._client.send(call, Image)

    async def create_by_url(self, location: str, *, url: str, image: NewImage) -> None:
        """Have the platform fetch an image. Its id is found by its name in the list afterwards."""
        call = Call(
            method="POST",
            route=_LIST,
            path={"location": location},
            query={**image.query(), "url": url},
            pace=Pace.CREATE,
            hidden=image.hidden,
        )
        await self._client.do(call)

    async def upload_start(self, location: str, *, file_name: str) -> ImageUpload:
        """Begin an upload in parts of `part_size` bytes."""
        call = Call(
            method="POST",
            route=_UPLOAD,
            path={"location": location},
            query={"file_name": file_name},
        )
        return await self._client.send(call, ImageUpload)

    async def upload_part(
        self, location: str, upload: ImageUpload, *, part: int, content: bytes | Stream
    ) -> Part:
        """Send one part; parts count from 1. Sending the same part again replaces it."""
        call = Call(
            method="PUT",
            route=_PART,
            path={"location": location, "upload_id": upload.upload_id, "part_id": part},
            query={"object_name": upload.object_name},
            content=content,
            pace=Pace.UPLOAD,
        )
        answer = await self._client.do(call)
        etag = _etag(answer.etag, answer.body)
        if not etag:
            raise UnknownOutcome(call.method, call.route, answer.status, "the answer has no etag")
        return Part(part_number=part, etag=etag)

    async def upload_finish(
        self, location: str, upload: ImageUpload, *, parts: Sequence[Part], image: NewImage
    ) -> int | None:
        """Make an image of the parts; returns its id where the platform tells it.

        Nothing says that it does, so be ready to find the id by the name in the list.
        """
        call = Call(
            method="POST",
            route=_FINISH,
            path={"location": location, "upload_id": upload.upload_id},
            query=image.query(),
            body={
                "object_name": upload.object_name,
                "uploaded_parts": [msgspec.structs.asdict(part) for part in parts],
            },
            pace=Pace.CREATE,
            hidden=image.hidden,
        )
        return _image_id((await self._client.do(call)).body)

    async def delete(self, location: str, image_id: int, *, permanently: bool) -> None:
        """Delete an image."""
        call = Call(
            method="DELETE",
            route=_ONE,
            path={"location": location, "image_id": image_id},
            query={"permanently": permanently},
        )
        await self._client.ack(call)


def _image_id(body: bytes) -> int | None:
    try:
        return msgspec.json.decode(body, type=_Made).image_id
    except msgspec.DecodeError:
        return None


def _etag(header: str, body: bytes) -> str:
    """Find the tag: nothing says whether it comes as a header or in the body, so both will do."""
    if header:
        return header.strip('"')
    try:
        said: object = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    if isinstance(said, dict):
        said = said.get("etag") or said.get("ETag") or ""
    return said.strip('"') if isinstance(said, str) else ""
