"""The three steps of an upload: begin, parts, end. Continues what an earlier run began."""

from dataclasses import dataclass

from msgspec.structs import replace

from capvco.cli.imagepublish.content import Content
from capvco.cli.imagepublish.ending import Ending, NotTaken
from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.progress import Track
from capvco.cli.imagepublish.state import Slot, State
from capvco.vco.errors import (
    Malformed,
    NotFound,
    VCOError,
)
from capvco.vco.images import Images, NewImage, Part
from capvco.vco.models import ImageUpload

_STARTS = 3
"""How often one run begins at most, when the platform forgets the upload again and again."""


class _Forgotten(Exception):  # noqa: N818 - reads as what happened
    """The platform does not know the upload, or not its parts, any more."""

    def __init__(self, cause: VCOError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One upload into one location."""

    images: Images
    location: str
    image: NewImage
    content: Content
    patience: Patience
    slot: Slot
    track: Track

    async def through(self, state: State) -> State:
        """Bring it to its end; returns the state with the new image's id.

        Raises VCOError, FileChanged and Unclear; what is on the platform by then stays known.
        """
        for left in reversed(range(_STARTS)):
            try:
                return await self._once(state)
            except _Forgotten as error:
                state = self.slot.clear()
                if not left:
                    raise error.cause from None
                self.track.say(f"the platform has lost the upload, so it begins anew: {error}")
        raise AssertionError("the last start returns or raises")

    async def _once(self, state: State) -> State:
        resumed = bool(state.upload_id)
        if state.before is None:
            state = await self._parts(state)
        self.track.phase("ending the upload")
        ending = Ending(
            images=self.images,
            location=self.location,
            image=self.image,
            patience=self.patience,
            slot=self.slot,
            track=self.track,
        )
        try:
            image_id = await ending.image_id(state)
        except NotTaken as error:
            # What was uploaded long ago may be incomplete by now; what is fresh is refused as such.
            if resumed or isinstance(error.cause, NotFound):
                raise _Forgotten(error.cause) from error
            raise error.cause from None
        return self.slot.save(replace(self.slot.load(), image_id=image_id))

    async def _parts(self, state: State) -> State:
        self.track.phase("uploading")
        if not state.upload_id:
            begun = await self.patience.repeat(self._begin, self.track.say)
            state = self._begun(begun)
        upload = ImageUpload(
            upload_id=state.upload_id, object_name=state.object_name, part_size=state.part_size
        )
        self.track.at(min(len(state.parts) * state.part_size, self.content.size))
        for number in range(1, self.content.parts(state.part_size) + 1):
            if number not in state.parts:
                part = await self._part(upload, number)
                self.content.check()
                state = self.slot.save(replace(state, parts={**state.parts, number: part.etag}))
        self.content.check()
        return state

    async def _begin(self) -> ImageUpload:
        return await self.images.upload_start(self.location, file_name=self.content.path.name)

    def _begun(self, upload: ImageUpload) -> State:
        if upload.part_size < 1:
            words = f"a part_size of {upload.part_size} makes no sense"
            raise Malformed("POST", "…/upload-vm-image", None, words)
        state = State(
            upload_id=upload.upload_id,
            object_name=upload.object_name,
            part_size=upload.part_size,
        )
        return self.slot.save(state)

    async def _part(self, upload: ImageUpload, number: int) -> Part:
        start = (number - 1) * upload.part_size

        async def send() -> Part:
            content = self.content.part(
                number, upload.part_size, lambda sent: self.track.at(start + sent)
            )
            return await self.images.upload_part(
                self.location, upload, part=number, content=content
            )

        try:
            return await self.patience.repeat(
                send, lambda text: self.track.say(f"part {number}: {text}")
            )
        except NotFound as error:
            raise _Forgotten(error) from error
