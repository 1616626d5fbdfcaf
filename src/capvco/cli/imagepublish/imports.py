"""The import of an uploaded image: waited for, verified, and cleared away if it failed."""

import asyncio
import contextlib
from dataclasses import dataclass

from msgspec.structs import replace

from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.progress import Track
from capvco.cli.imagepublish.reports import Outcome, Result
from capvco.cli.imagepublish.state import Slot, State
from capvco.vco.errors import NotFound, VCOError
from capvco.vco.images import CREATED, Images, NewImage, has_failed
from capvco.vco.models import Image

_GONE = "DESTROYED"


@dataclass(frozen=True, kw_only=True)
class Import:
    """The import of one image in one location."""

    images: Images
    location: str
    image: NewImage
    patience: Patience
    slot: Slot
    track: Track

    async def watch(self, state: State) -> Result:
        """Wait for the image whose id the state has, and judge it. Raises VCOError."""
        image_id = state.image_id
        if image_id is None:
            raise ValueError("nothing was uploaded yet")
        self.slot.save(state)
        self.track.phase(f"waiting for the import of image {image_id}")
        found = await self._ended(image_id)
        if found is None or not (found.status.upper() == CREATED or has_failed(found.status)):
            return self._not_ready(image_id, found)
        if reason := self._fault(found):
            return await self._failed(state, found, reason)
        self.slot.save(replace(state, done=True))
        return Result(
            location=self.location,
            outcome=Outcome.PRESENT if state.done else Outcome.PUBLISHED,
            image_id=image_id,
            status=found.status,
            detail="by an earlier run" if state.done else _unverified(found),
        )

    async def _ended(self, image_id: int) -> Image | None:
        """Wait until it is no longer being made; else return what was seen last.

        One that is gone, beyond what a lagging platform explains, has the status DESTROYED.
        """
        clock = asyncio.get_running_loop().time
        seen_at, seen = clock(), None

        async def look() -> Image | None:
            nonlocal seen_at, seen
            try:
                seen = await self.images.get(self.location, image_id)
            except NotFound:
                gone = clock() - seen_at >= self.patience.lag
                return self._gone(image_id) if gone else None
            seen_at = clock()
            over = seen.status.upper() == CREATED or has_failed(seen.status)
            return seen if over else None

        return await self.patience.until(look, self.patience.ready, self.track.say) or seen

    def _gone(self, image_id: int) -> Image:
        return Image(image_id=image_id, name=self.image.name, status=_GONE)

    def _fault(self, image: Image) -> str:
        if image.status.upper() != CREATED:
            return f"the import ended as {image.status}, not as {CREATED}"
        if image.boot_type and image.boot_type != self.image.boot_type:
            return f"its boot type is {image.boot_type}, not {self.image.boot_type} as asked for"
        return ""

    async def _failed(self, state: State, image: Image, reason: str) -> Result:
        """Remove what the import made; but never an image that once was good."""
        if state.done:
            what = "an earlier run had published it; --allow-duplicate publishes it anew"
        else:
            what = await self._removed(image)
        return Result(
            location=self.location,
            outcome=Outcome.FAILED if state.done else Outcome.IMPORT_FAILED,
            image_id=image.image_id,
            status=image.status,
            detail=f"{reason}; {what}",
        )

    async def _removed(self, image: Image) -> str:
        self.track.phase(f"removing the failed image {image.image_id}")
        try:
            await self.patience.repeat(lambda: self._delete(image), self.track.say)
        except VCOError as error:
            return f"it could not be removed, so remove it in the portal: {error}"
        self.slot.clear()
        return "it was removed"

    async def _delete(self, image: Image) -> None:
        with contextlib.suppress(NotFound):
            await self.images.delete(self.location, image.image_id, permanently=True)

    def _not_ready(self, image_id: int, seen: Image | None) -> Result:
        return Result(
            location=self.location,
            outcome=Outcome.NOT_READY,
            image_id=image_id,
            status=seen.status if seen else "",
            detail=(
                f"still being imported after {self.patience.ready:.0f} s; the same command waits on"
            ),
        )


def _unverified(image: Image) -> str:
    return "" if image.boot_type else "the platform does not tell its boot type"
