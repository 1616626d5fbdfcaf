"""The end of an upload, by which it becomes an image: sent once if possible, never blindly twice.

A lost answer may have made the image, and a second one of the same name would be one too many. So
every repetition is preceded by a look for what the one before has made.
"""

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.progress import Track
from capvco.cli.imagepublish.state import Slot, State
from capvco.vco.errors import (
    CredentialsRefused,
    Refused,
    Throttled,
    UnknownOutcome,
    Unreachable,
    VCOError,
)
from capvco.vco.images import Images, NewImage, Part
from capvco.vco.models import ImageUpload

_TRIES = 3


class Unclear(Exception):  # noqa: N818 - reads as what is the case
    """Nobody can tell whether the upload became an image; a person has to look."""


class NotTaken(Exception):  # noqa: N818 - reads as what is the case
    """The platform refused to make an image of the upload, and no image was made of it."""

    def __init__(self, cause: Refused) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of one upload into one location."""

    images: Images
    location: str
    image: NewImage
    patience: Patience
    slot: Slot
    track: Track

    async def image_id(self, state: State) -> int:
        """End the upload and return the image's id. Raises NotTaken, Unclear and VCOError."""
        sent = state.before is not None
        state = await self._noted(state)
        failures = list[VCOError]()
        for _ in range(_TRIES):
            if sent and (found := await self._made(state, self.patience.lag)) is not None:
                return found
            try:
                told = await self._send(state)
            except UnknownOutcome as error:
                sent = True
                failures.append(error)
            except Refused as error:
                return await self._refused(state, error, sent=sent)
            except (Throttled, Unreachable) as error:
                failures.append(error)
                await asyncio.sleep(error.retry_after or self.patience.first_wait)
            except CredentialsRefused:
                self._unnoted(state, sent=sent)
                raise
            else:
                return await self._listed(state, told)
            self.track.say(f"ending the upload: {failures[-1]}")
        if sent and (found := await self._made(state, self.patience.lag)) is not None:
            return found
        self._unnoted(state, sent=sent)
        raise failures[-1]

    async def _noted(self, state: State) -> State:
        """Keep, before the end is sent, which images have the name: the new one will be another."""
        if state.before is not None:
            return state
        return self.slot.save(replace(state, before=tuple(sorted(await self._named()))))

    def _unnoted(self, state: State, *, sent: bool) -> None:
        """Take that back, where it is certain that nothing happened."""
        if not sent:
            self.slot.save(replace(state, before=None))

    async def _send(self, state: State) -> int | None:
        parts = [Part(part_number=n, etag=etag) for n, etag in sorted(state.parts.items())]
        upload = ImageUpload(
            upload_id=state.upload_id, object_name=state.object_name, part_size=state.part_size
        )
        return await self.images.upload_finish(self.location, upload, parts=parts, image=self.image)

    async def _refused(self, state: State, error: Refused, *, sent: bool) -> int:
        """Look a last time: the platform refuses an upload that it may have made an image of."""
        if not sent:
            self.slot.clear()
            raise NotTaken(error) from error
        found = await self._made(state, self.patience.lag)
        if found is not None:
            return found
        self.slot.clear()
        raise Unclear(
            "the end of the upload had been sent and its outcome is not known; now the platform"
            " refuses it and shows no new image of this name: look into the portal, then run the"
            f" same command to upload anew ({error})"
        ) from error

    async def _listed(self, state: State, told: int | None) -> int:
        """Find the image in the list; an id that the platform told counts if it is there."""
        if told is not None:
            found = await self._within(state, self.patience.lag, told)
            if found is not None:
                return found
        found = await self._made(state, self.patience.ready)
        if found is None:
            raise Unclear(
                "the platform took the upload, but shows no new image of this name after"
                f" {self.patience.ready:.0f} s; look into the portal, then run the same command"
            )
        return found

    async def _made(self, state: State, seconds: float) -> int | None:
        """Wait so long for the one new image of this name. Raises Unclear if there are several."""

        async def look() -> int | None:
            new = await self._new(state)
            if len(new) > 1:
                raise Unclear(
                    f"several new images have this name ({', '.join(map(str, new))}): somebody else"
                    " publishes the same; look into the portal which is whose"
                )
            return new[0] if new else None

        return await self.patience.until(look, seconds, self.track.say)

    async def _within(self, state: State, seconds: float, told: int) -> int | None:
        """Wait so long for a certain image to be listed."""

        async def look() -> int | None:
            return told if told in await self._new(state) else None

        return await self.patience.until(look, seconds, self.track.say)

    async def _new(self, state: State) -> list[int]:
        return sorted(set(await self._named()) - set(state.before or ()))

    async def _named(self) -> list[int]:
        images = await self.images.list(self.location)
        return [one.image_id for one in images if one.name == self.image.name]
