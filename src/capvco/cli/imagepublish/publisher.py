"""Brings one image into one location: looks, uploads, ends the upload, waits, verifies."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from capvco.cli.imagepublish.content import Content, FileChanged
from capvco.cli.imagepublish.ending import Unclear
from capvco.cli.imagepublish.imports import Import
from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.progress import Track
from capvco.cli.imagepublish.reports import Outcome, Result
from capvco.cli.imagepublish.state import NOTHING, Busy, Slot, State, States
from capvco.cli.imagepublish.upload import Upload
from capvco.cli.texts import clean
from capvco.vco.cloud import VCO
from capvco.vco.errors import VCOError
from capvco.vco.images import NewImage
from capvco.vco.models import Image


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is published, and how."""

    vco: VCO
    image: NewImage
    content: Content
    states: States
    patience: Patience
    allow_duplicate: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """One location's course."""

    job: Job
    location: str
    track: Track

    async def publish(self) -> Result:
        """Do all of it. What goes wrong is in the result."""
        credentials, image = self.job.vco.credentials, self.job.image
        what = (credentials.api_url, credentials.customer_id, self.location)
        try:
            with self.job.states.slot(
                *what, image.name, image.boot_type, str(image.md5_sum)
            ) as slot:
                result = await self._publish(slot)
        except (VCOError, Busy, FileChanged, Unclear, OSError) as error:
            result = self._result(Outcome.FAILED, detail=str(error))
        self.track.phase(result.outcome)
        return result

    async def _publish(self, slot: Slot) -> Result:
        same = await self._named()
        state = decided(slot.load(), [one.image_id for one in same], self.job.allow_duplicate)
        known = self._known(state, same)
        if self.job.dry_run:
            return known or self._result(Outcome.PLANNED, detail=self._progress(state))
        if known is not None and state.image_id is None:
            return known
        if state == NOTHING:
            slot.clear()
        if state.image_id is None:
            self._resuming(state)
            state = await Upload(
                images=self.job.vco.images,
                location=self.location,
                image=self.job.image,
                content=self.job.content,
                patience=self.job.patience,
                slot=slot,
                track=self.track,
            ).through(state)
        return await self._import(slot, state)

    async def _named(self) -> tuple[Image, ...]:
        images = await self.job.vco.images.list(self.location)
        return tuple(one for one in images if one.name == self.job.image.name)

    def _known(self, state: State, same: Sequence[Image]) -> Result | None:
        """Say what needs no upload."""
        if state.image_id is not None:
            return self._result(
                Outcome.PRESENT if state.done else Outcome.PLANNED,
                image_id=state.image_id,
                detail="by an earlier run" if state.done else "uploaded; its import is waited for",
            )
        if same and state.before is None and not self.job.allow_duplicate:
            ids = ", ".join(f"{one.image_id}{' (public)' * one.public}" for one in same)
            return self._result(
                Outcome.DUPLICATE,
                image_id=same[0].image_id,
                status=same[0].status,
                detail=f"{ids}: has this name; choose another, or --allow-duplicate",
            )
        return None

    def _progress(self, state: State) -> str:
        if not state.upload_id:
            return "all of it is to be uploaded"
        count = self.job.content.parts(state.part_size)
        return f"{len(state.parts)} of {count} parts are there already"

    def _resuming(self, state: State) -> None:
        if state.parts:
            self.track.say(f"an earlier run got on: {self._progress(state)}")

    async def _import(self, slot: Slot, state: State) -> Result:
        found = Import(
            images=self.job.vco.images,
            location=self.location,
            image=self.job.image,
            patience=self.job.patience,
            slot=slot,
            track=self.track,
        )
        return await found.watch(state)

    def _result(
        self, outcome: Outcome, *, image_id: int | None = None, status: str = "", detail: str = ""
    ) -> Result:
        return Result(
            location=self.location,
            outcome=outcome,
            image_id=image_id,
            status=status,
            detail=clean(detail),
        )


def decided(state: State, named: Sequence[int], allow_duplicate: bool) -> State:
    """Say where to go on, given the images that have the name now. Pure."""
    if state.image_id is not None:
        wanted_again = state.done and allow_duplicate
        return NOTHING if wanted_again or state.image_id not in named else state
    if state.before is not None:
        new = sorted(set(named) - set(state.before))
        if len(new) == 1:
            return msgspec.structs.replace(state, image_id=new[0])
    return state


async def everywhere(publishers: Sequence[Publisher], at_once: int) -> tuple[Result, ...]:
    """Publish in all locations, so many at once; in the order given."""
    slots = asyncio.Semaphore(at_once)

    async def one(publisher: Publisher) -> Result:
        async with slots:
            return await publisher.publish()

    return tuple(await asyncio.gather(*map(one, publishers)))
