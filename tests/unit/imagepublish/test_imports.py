"""What becomes of an import, told by the platform's words alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from capvco.cli.imagepublish.imports import Import
from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.reports import Outcome
from capvco.cli.imagepublish.state import NOTHING, Slot, State
from capvco.vco.images import Images, NewImage
from tests.unit.vco.support import Platform, Reply, a_client, a_platform

IMAGE = NewImage(name="n", memory=512, boot_disk_size=1, boot_type="bios")
NEW, OLD = State(image_id=8, before=()), State(image_id=8, before=(), done=True)
SUCCESS = httpx2.Response(200, json={"success": True})
ABSENT = httpx2.Response(404, json={"message": "no such image"})


def an_image(status: str, boot_type: str | None = "bios") -> httpx2.Response:
    body = {"image_id": 8, "name": "n", "status": status, "boot_type": boot_type}
    return httpx2.Response(200, json=body)


class Quiet:
    """A track that nobody watches."""

    def at(self, done: int) -> None:
        pass

    def phase(self, text: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass


@asynccontextmanager
async def an_import(slot: Slot, *replies: Reply) -> AsyncIterator[tuple[Import, Platform]]:
    platform = a_platform(*replies)
    client = a_client(platform)
    found = Import(
        images=Images(client),
        location="be",
        image=IMAGE,
        patience=Patience(poll=3.0, lag=60.0, ready=600.0),
        slot=slot,
        track=Quiet(),
    )
    yield found, platform
    await client.close()


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path / "slot.json")


def methods(platform: Platform) -> list[str]:
    return [request.method for request in platform.seen]


@pytest.mark.looptime
async def test_a_usable_image_is_noted(slot: Slot) -> None:
    """After any word that is not a failure."""
    replies = [an_image(word) for word in ("VIRTUAL", "CREATING", "CONVERTING", "CREATED")]
    async with an_import(slot, ABSENT, *replies) as (watched, platform):
        result = await watched.watch(NEW)
    assert (result.outcome, result.image_id, result.detail) == (Outcome.PUBLISHED, 8, "")
    assert methods(platform) == ["GET"] * 5
    assert slot.load() == OLD


@pytest.mark.looptime
async def test_a_boot_type_that_is_not_told_is_no_failure(slot: Slot) -> None:
    """But it is said."""
    async with an_import(slot, an_image("CREATED", None)) as (watched, _):
        result = await watched.watch(NEW)
    assert result.outcome is Outcome.PUBLISHED
    assert "does not tell its boot type" in result.detail


@pytest.mark.looptime
@pytest.mark.parametrize(
    "bad", [an_image("CREATE_FAILED"), an_image("DISABLED"), an_image("CREATED", "uefi")]
)
async def test_what_failed_is_removed_for_good(slot: Slot, bad: httpx2.Response) -> None:
    """Once it surely failed; a lost answer to that is repeated."""
    gone = httpx2.ReadError("lost")
    async with an_import(slot, bad, gone, SUCCESS) as (watched, platform):
        result = await watched.watch(NEW)
    assert result.outcome is Outcome.IMPORT_FAILED
    assert "it was removed" in result.detail
    assert methods(platform) == ["GET", "DELETE", "DELETE"]
    assert platform.seen[-1].url.params["permanently"] == "true"
    assert slot.load() == NOTHING


@pytest.mark.looptime
@pytest.mark.parametrize("bad", [an_image("DISABLED"), an_image("CREATED", "uefi")])
async def test_what_once_was_good_is_never_removed(slot: Slot, bad: httpx2.Response) -> None:
    """Machines may be made of it."""
    async with an_import(slot, bad) as (watched, platform):
        result = await watched.watch(OLD)
    assert result.outcome is Outcome.FAILED
    assert "--allow-duplicate" in result.detail
    assert methods(platform) == ["GET"]
    assert slot.load() == OLD


@pytest.mark.looptime
async def test_an_image_that_stays_away_is_a_failed_import(slot: Slot) -> None:
    """After longer than a platform lags."""
    async with an_import(slot, an_image("CREATING"), ABSENT) as (watched, _):
        result = await watched.watch(NEW)
    assert (result.outcome, result.status) == (Outcome.IMPORT_FAILED, "DESTROYED")


@pytest.mark.looptime
async def test_an_unknown_word_is_waited_out(slot: Slot) -> None:
    """It is not certain, so nothing is removed, and the next run waits on."""
    async with an_import(slot, an_image("CONVERTING")) as (watched, platform):
        result = await watched.watch(NEW)
    assert (result.outcome, result.status) == (Outcome.NOT_READY, "CONVERTING")
    assert set(methods(platform)) == {"GET"}
    assert slot.load() == NEW
