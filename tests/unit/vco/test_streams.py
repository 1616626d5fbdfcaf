"""Bodies that are read while they are sent, and the upload that needs them."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from capvco.vco.call import Stream
from capvco.vco.credentials import Credentials
from capvco.vco.errors import UnknownOutcome
from capvco.vco.images import Images, NewImage, Part
from capvco.vco.models import ImageUpload
from tests.unit.vco.support import Platform, a_client, a_jwt, a_platform, json, some_credentials

UPLOAD = ImageUpload(upload_id="u", object_name="o", part_size=6)
IMAGE = NewImage(name="n", memory=512, boot_disk_size=1, boot_type="bios")


class Source:
    """Gives six bytes in three pieces, and counts how often it is opened."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.opened, self.fails = 0, fails

    @property
    def stream(self) -> Stream:
        return Stream(6, self._pieces)

    async def _pieces(self) -> AsyncIterator[bytes]:
        self.opened += 1
        for piece in (b"ab", b"cd", b"ef"):
            if self.fails is not None and piece == b"cd":
                raise self.fails
            yield piece


class Reader:
    """Answers from a platform's script, after having read the body."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.bodies = platform, list[bytes]()

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(await request.aread())
        return await self.platform(request)


async def test_a_streamed_body_has_a_length() -> None:
    """Servers in front of object stores want one; it is not sent in chunks."""
    platform = Reader(a_platform(json({"etag": "e"})))
    part = await Images(a_client(platform)).upload_part(
        "be", UPLOAD, part=2, content=Source().stream
    )
    (request,) = platform.platform.seen
    assert part == Part(part_number=2, etag="e")
    assert platform.bodies == [b"abcdef"]
    assert request.headers["Content-Length"] == "6"
    assert "Transfer-Encoding" not in request.headers
    assert request.headers["Content-Type"] == "application/octet-stream"


async def _another() -> Credentials:
    return some_credentials(jwt=a_jwt("another"))


async def test_a_streamed_body_is_opened_anew_with_a_new_token() -> None:
    """A 401 in the middle of an upload costs one part, not the image."""
    source = Source()
    platform = Reader(a_platform(json({"message": "expired"}, 401), json({"etag": "e"})))
    client = a_client(platform, reload=_another)
    await Images(client).upload_part("be", UPLOAD, part=1, content=source.stream)
    assert (source.opened, platform.bodies) == (2, [b"abcdef"] * 2)


async def test_what_the_source_raises_comes_out() -> None:
    """It is no failure of the platform."""
    platform = Reader(a_platform(json({})))
    with pytest.raises(RuntimeError, match="changed"):
        await Images(a_client(platform)).upload_part(
            "be", UPLOAD, part=1, content=Source(RuntimeError("changed")).stream
        )


async def test_an_upload_may_take_its_time_but_not_stand_still() -> None:
    """Its own time limits: an hour for a part, two minutes for the next piece."""
    platform = Reader(a_platform(json({"etag": "e"})))
    await Images(a_client(platform)).upload_part("be", UPLOAD, part=1, content=Source().stream)
    timeout = platform.platform.seen[0].extensions["timeout"]
    assert (timeout["write"], timeout["read"], timeout["connect"]) == (120.0, 300.0, 10.0)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (json({"image_id": 7}), 7),
        (json({"success": True}), None),
        (json(None), None),
        (httpx2.Response(200), None),
        (httpx2.Response(200, content=b"done"), None),
    ],
)
async def test_the_end_of_an_upload_may_tell_the_id(
    answer: httpx2.Response, told: int | None
) -> None:
    """Nothing is described, so anything but a web page is a yes."""
    images = Images(a_client(a_platform(answer)))
    assert await images.upload_finish("be", UPLOAD, parts=[], image=IMAGE) == told


async def test_a_web_page_is_no_answer_to_the_end_of_an_upload() -> None:
    """Perhaps it happened."""
    images = Images(a_client(a_platform(httpx2.Response(200, html="<html>"))))
    with pytest.raises(UnknownOutcome):
        await images.upload_finish("be", UPLOAD, parts=[], image=IMAGE)
