"""Reserve and adopt the vGPUs of one machine; never lose an id, never buy one twice.

A reservation costs money from the moment it exists, so each step is recorded before the next:
the intent (name and card) before the POST, the id at once after it. A POST whose answer was lost
has perhaps happened; it is looked for by its recorded name before anything is repeated.

What counts as ours: a recorded id; or the name of a recorded intent, since an intent is recorded
only under a name that nobody held when it was made.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from capvco.api.conditions import Reason
from capvco.api.v1beta1.machine import GPURequest
from capvco.services import names
from capvco.services.claims import Claims
from capvco.services.cloud import Cloud, Save
from capvco.services.gpu_types import Choice, Profile, Unavailable, choose, is_stub, match, models
from capvco.services.listing import Listing
from capvco.services.outcome import Pending, Terminal, billed
from capvco.services.record import Record, Slot
from capvco.vco.errors import (
    Conflict,
    NoCapacity,
    NotFound,
    Refused,
    UnknownOutcome,
    VCOError,
)
from capvco.vco.models import VGPU, GPUProfile


class Wanted(Struct, frozen=True, kw_only=True):
    """What a machine asks for, and where."""

    machine: str
    location: str
    cloudspace_id: str
    request: GPURequest


class Reserved(Struct, frozen=True):
    """All vGPUs are held; ``note`` says what a person should know of the choice of model."""

    note: str = ""


def held(record: Record) -> tuple[Slot, ...]:
    """Return the slots whose reservation is known by its id."""
    return tuple(slot for slot in record.gpus if slot.vgpu_id)


def unanswered(record: Record) -> tuple[Slot, ...]:
    """Return the slots whose attempt to reserve has no known outcome yet."""
    return tuple(slot for slot in record.gpus if not slot.vgpu_id)


def about(listing: Listing[VGPU], record: Record) -> tuple[VGPU, ...]:
    """Return what a list has under the ids and the names of a record, given-up ones included."""
    names_ = {slot.name for slot in record.gpus} | set(record.lost)
    return listing.about(ids={slot.vgpu_id for slot in held(record)}, names=names_)


def elsewhere(listed: VGPU, wanted: Wanted) -> bool:
    """Say whether a vGPU is attached to a VM that is not this machine's."""
    vm = listed.virtual_machine
    return vm is not None and (vm.name, vm.cloudspace_id) != (wanted.machine, wanted.cloudspace_id)


@dataclass(frozen=True)
class Reservations:
    """The vGPUs of one machine."""

    cloud: Cloud
    wanted: Wanted
    save: Save
    closing: Callable[[Record], Record] = lambda record: record
    """Completes the record that holds the last id, so that it takes no write of its own."""

    async def ensure(self, record: Record) -> tuple[Record, Reserved | Pending]:
        """Hold the requested number of vGPUs, all of one model. Idempotent.

        Returns the record as it was last saved. Raises Terminal if the platform refuses, and the
        client's errors if it cannot be asked.
        """
        if unanswered(record):
            record, pending = await self._resolve(record)
            if pending:
                return record, pending
        if len(held(record)) >= self.wanted.request.count:
            return record, Reserved()
        return await self._reserve_missing(record)

    async def still_none(self, record: Record) -> Pending | None:
        """Say whether a machine that waits for a GPU, and holds none, has to go on waiting.

        However many machines wait, one list an interval serves them all, and nothing else is asked.
        """
        profiles = await self._offered()
        try:
            self._choose(record, profiles)
        except Unavailable as error:
            return await self._unavailable(error, record)
        return None

    async def _offered(self) -> tuple[GPUProfile, ...]:
        age = self.cloud.since(self.cloud.waits.capacity * 0.9)
        return await self.cloud.inventory.profiles(self.wanted.location, since=age)

    async def _resolve(self, record: Record) -> tuple[Record, Pending | None]:
        """Find out what became of attempts whose answer is not known."""
        newest = max(slot.at for slot in unanswered(record))
        since = max(newest, self.cloud.since(self.cloud.waits.poll / 2))
        listing = await self.cloud.inventory.vgpus(self.wanted.location, since=since)
        listed = about(listing, record)
        resolved, waiting = record, ""
        for slot in unanswered(record):
            if ours := self._adoptable(listed, slot):
                resolved = resolved.with_slot(msgspec.structs.replace(slot, vgpu_id=ours))
            elif self.cloud.clock() - slot.at < self.cloud.waits.settle:
                waiting = slot.name
            else:
                others = (name for name in resolved.lost if name != slot.name)
                lost = (*others, slot.name)
                resolved = msgspec.structs.replace(resolved.without_slot(slot.name), lost=lost)
        if resolved != record:
            await self.save(resolved)
        return resolved, self._lost_answer(waiting) if waiting else None

    def _adoptable(self, listed: Iterable[VGPU], slot: Slot) -> str:
        found = (v for v in listed if v.vgpu_name == slot.name and not v.in_bin)
        ids = sorted(v.vgpu_id for v in found if not elsewhere(v, self.wanted))
        return ids[0] if ids else ""

    def _lost_answer(self, name: str) -> Pending:
        message = (
            f"the answer to the reservation of {name} was lost; looking for it in"
            f" {self.wanted.location} before anything is repeated"
        )
        return Pending(Reason.WAITING_FOR_PLATFORM, message, self.cloud.waits.poll)

    async def _reserve_missing(self, record: Record) -> tuple[Record, Reserved | Pending]:
        """Reserve one after the other, trying each matching card once."""
        location, profiles = self.wanted.location, await self._offered()
        saved, lost_cards, note = record, set[str](), ""
        free = await self._free_names(record)
        while len(held(record)) < self.wanted.request.count:
            try:
                choice = self._choose(record, used_up(profiles, lost_cards))
            except Unavailable as error:
                if record != saved:
                    await self.save(record)
                return record, await self._unavailable(error, record)
            note = choice.note or note
            slot = self._slot(choice, free)
            with self._claims.claim(slot.profile_id, self._holder):
                record = saved = record.with_slot(slot)
                await self.save(record)
                # No read, no other call between the POST and the record of its answer.
                try:
                    record = await self._reserve(record, slot)
                except (NoCapacity, Conflict, NotFound):
                    record = record.without_slot(slot.name)
                    free.insert(0, slot.name)
                    lost_cards.add(slot.profile_id)
                    await self.save(record)
                    now = self.cloud.clock()
                    profiles = await self.cloud.inventory.profiles(location, since=now)
                except Refused as error:
                    await self.save(record.without_slot(slot.name))
                    raise Terminal(Reason.REFUSED_BY_PLATFORM, str(error)) from error
                except UnknownOutcome:
                    # A gateway gives up after a minute, and what it gave up on goes on: the time
                    # to settle begins now.
                    lost = msgspec.structs.replace(slot, at=self.cloud.clock())
                    record = record.with_slot(lost)
                    await self.save(record)
                    return record, self._lost_answer(slot.name)
            if len(held(record)) < self.wanted.request.count:
                profiles = one_less(profiles, slot.profile_id)
        record = self.closing(record)
        await self.save(record)
        return record, Reserved(note)

    def _slot(self, choice: Choice, free: list[str]) -> Slot:
        card, label = self._card(choice), choice.model.label
        return Slot(name=free.pop(0), profile_id=card.id, model=label, at=self.cloud.clock())

    def _card(self, choice: Choice) -> Profile:
        """Take the card with most room after what other machines are about to take."""
        others = self._claims.of_others(self._holder)
        roomy = (card for card in choice.model.cards if card.available_instances > 0)
        return min(roomy, key=lambda card: others[card.id] - card.available_instances)

    @property
    def _claims(self) -> Claims:
        return self.cloud.inventory.claims(self.wanted.location)

    @property
    def _holder(self) -> str:
        return f"{self.wanted.cloudspace_id}/{self.wanted.machine}"

    async def _reserve(self, record: Record, slot: Slot) -> Record:
        vgpu_id = await self.cloud.vco.gpus.reserve(
            self.wanted.location, gpu_id=slot.profile_id, name=slot.name
        )
        return record.with_slot(msgspec.structs.replace(slot, vgpu_id=vgpu_id))

    def _choose(self, record: Record, offered: Sequence[GPUProfile]) -> Choice:
        """Choose the model. Raises Unavailable, and Terminal for a driver on a placeholder."""
        choice = self._matching(record, offered)
        if self.wanted.request.driver_version and is_stub(choice.model.label):
            raise Terminal(
                Reason.DRIVER_FOR_STUB_PROFILE,
                f'"{choice.model.label}" is a placeholder for tests, with no device that a driver'
                f' could use, and driverVersion is "{self.wanted.request.driver_version}": leave it'
                " empty, or choose a real GPU type; nothing was reserved",
            )
        return choice

    def _matching(self, record: Record, offered: Sequence[GPUProfile]) -> Choice:
        request, present = self.wanted.request, held(record)
        missing = request.count - len(present)
        if request.profile_id is not None:
            return pinned(request.profile_id, offered, missing)
        return choose(
            request.type or "",
            offered,
            missing,
            held=present[0].model if present else "",
            refuse_choice=self.cloud.refuse_choice,
        )

    async def _unavailable(self, error: Unavailable, record: Record) -> Pending:
        reason = Reason.GPU_TYPE_AMBIGUOUS if error.ambiguous else Reason.GPU_TYPE_UNAVAILABLE
        costs = billed(len(held(record)))
        other = "" if error.ambiguous else await self._other_locations()
        return Pending(reason, f"{error}{other}{costs}", self.cloud.waits.capacity, failure=True)

    async def _other_locations(self) -> str:
        """Say which other locations offer the type; silent about those that cannot be read."""
        requested, since = self.wanted.request.type, self.cloud.since(self.cloud.waits.capacity)
        if requested is None:
            return ""
        try:
            locations = await self.cloud.inventory.locations(since=since)
        except VCOError:
            return ""
        said = ""
        for location in sorted(set(locations) - {self.wanted.location}):
            try:
                profiles = await self.cloud.inventory.profiles(location, since=since)
            except VCOError:
                continue
            if found := match(requested, profiles):
                said += f"; {location} has {', '.join(model.offer for model in found)}"
        return said

    def _other_name(self, record: Record, name: str) -> str:
        """Return the name to try after one that is taken unseen, empty after the last."""
        for index in range(self.wanted.request.count):
            possible = names.vgpu_alternatives(self.wanted.machine, index, record.owner)
            if name in possible[:-1]:
                return possible[possible.index(name) + 1]
        return ""

    async def _free_names(self, record: Record) -> list[str]:
        """Return names for the missing slots that nobody holds. Raises Terminal without any."""
        location, machine = self.wanted.location, self.wanted.machine
        since = self.cloud.since(self.cloud.waits.poll)
        listing = await self.cloud.inventory.vgpus(location, since=since)
        mine = {slot.name for slot in record.gpus}
        free: list[str] = []
        for index in range(self.wanted.request.count):
            possible = names.vgpu_alternatives(machine, index, record.owner)
            if mine.intersection(possible):
                continue
            # Names under which something may still turn up come last: there are only so many.
            fresh_first = sorted(possible, key=record.lost.count)
            name = next((n for n in fresh_first if not listing.about(names=(n,))), None)
            if name is None:
                raise Terminal(
                    Reason.GPU_NAME_TAKEN,
                    f"vGPUs that are not provably this machine's carry all of its names"
                    f" ({possible[0]} and {len(possible) - 1} more) in {location}: release or"
                    " rename them, or delete this Machine",
                )
            free.append(name)
        return free


def pinned(profile_id: str, offered: Sequence[GPUProfile], missing: int) -> Choice:
    """Serve a request for one exact profile. Raises Unavailable with what the location offers."""
    card = [p for p in offered if p.id == profile_id]
    if not card:
        known = ", ".join(f'"{p.id}" ({p.vendor} {p.model})' for p in offered) or "none"
        raise Unavailable(
            f'no GPU profile has the id "{profile_id}" in this location; available: {known}'
        )
    (model,) = models(card)
    if model.free < missing:
        raise Unavailable(
            f'the GPU profile "{profile_id}" has no room for {missing}: {model.offer}'
        )
    return Choice(model, ())


def used_up(profiles: tuple[GPUProfile, ...], ids: Collection[str]) -> tuple[GPUProfile, ...]:
    """Return the profiles with nothing free on the named ones.

    They stay in the list: a type whose last card was just lost has no room, and neither does it
    match nothing nor, less specifically, another model.
    """
    if not ids:
        return profiles
    return tuple(
        msgspec.structs.replace(p, available_instances=0) if p.id in ids else p for p in profiles
    )


def one_less(profiles: Sequence[GPUProfile], profile_id: str) -> tuple[GPUProfile, ...]:
    """Return the profiles as they are after one reservation, without asking again."""
    return tuple(
        msgspec.structs.replace(p, available_instances=p.available_instances - 1)
        if p.id == profile_id
        else p
        for p in profiles
    )
