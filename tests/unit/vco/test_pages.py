"""Reading a list in pages while it changes: the whole list, or no reading at all."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from capvco.vco.models import VGPU, Pagination, VGPUPage
from capvco.vco.pages import collect


@dataclass
class Pages:
    """A list behind a server that gives at most `cap` entries at once (0: as many as asked)."""

    ids: list[str]
    cap: int = 0
    changes: list[list[str]] = field(default_factory=list)
    """What the list is after each reading of a page."""
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def __call__(self, start: int, limit: int) -> VGPUPage:
        self.asked.append((start, limit))
        most = min(limit or 10**6, self.cap or 10**6)
        part = self.ids[start : start + most]
        page = VGPUPage(
            pagination=Pagination(count=len(self.ids), limit=most),
            data=tuple(VGPU(vgpu_id=id_) for id_ in part),
        )
        if self.changes:
            self.ids = self.changes.pop(0)
        return page


def ids(count: int) -> list[str]:
    return [f"vgpu-{i}" for i in range(count)]


def read_ids(found: tuple[VGPU, ...] | None) -> list[str] | None:
    return None if found is None else [vgpu.vgpu_id for vgpu in found]


async def test_one_page_if_the_server_gives_all() -> None:
    """Usually one request is enough, and nothing can change within it."""
    pages = Pages(ids(60))
    assert read_ids(await collect(pages)) == ids(60)
    assert len(pages.asked) == 1


async def test_empty_list() -> None:
    """No entries and a count of 0 is an answer."""
    assert await collect(Pages([])) == ()


async def test_server_that_caps_its_pages() -> None:
    """All pages are read, whatever the server's cap."""
    for cap in (2, 7, 25, 100):
        assert read_ids(await collect(Pages(ids(60), cap))) == ids(60)


async def test_server_that_takes_no_limit_for_no_entries() -> None:
    """A server that gives nothing for limit=0 is asked for pages instead."""

    class Literal(Pages):
        async def __call__(self, start: int, limit: int) -> VGPUPage:
            page = await super().__call__(start, limit)
            return page if limit else VGPUPage(pagination=page.pagination, data=())

    assert read_ids(await collect(Literal(ids(150), 100))) == ids(150)


async def test_entry_that_slips_over_the_edge_is_noticed() -> None:
    """One goes, one comes: the total is the same, but an entry moved to a page already read."""
    before = ids(50)
    after = [*before[1:], "new"]
    assert await collect(Pages(before, 25, [after])) is None


async def test_changed_total_is_noticed() -> None:
    """A total that changes between pages makes the reading worthless."""
    assert await collect(Pages(ids(50), 25, [ids(51)])) is None
    assert await collect(Pages(ids(50), 25, [ids(49)])) is None


async def test_count_that_the_entries_do_not_add_up_to() -> None:
    """Fewer or more entries than counted is an error, never a shorter list."""

    async def short(start: int, _limit: int) -> VGPUPage:
        data = tuple(VGPU(vgpu_id=id_) for id_ in ids(3)[start:])
        return VGPUPage(pagination=Pagination(count=5), data=data)

    async def long(_start: int, _limit: int) -> VGPUPage:
        return VGPUPage(pagination=Pagination(count=1), data=(VGPU(vgpu_id="a"), VGPU(vgpu_id="b")))

    async def twice(_start: int, _limit: int) -> VGPUPage:
        return VGPUPage(pagination=Pagination(count=2), data=(VGPU(vgpu_id="a"), VGPU(vgpu_id="a")))

    assert await collect(short) is None
    assert await collect(long) is None
    assert await collect(twice) is None


@given(st.data())
async def test_a_reading_is_complete_or_none(data: st.DataObject) -> None:
    """Entries that were there all the time are in every reading that is accepted."""
    size = data.draw(st.integers(0, 12))
    cap = data.draw(st.integers(2, 5))
    current, versions = ids(size), []
    for step in range(data.draw(st.integers(0, 3))):
        gone = data.draw(st.sets(st.sampled_from(current), max_size=2)) if current else set()
        fresh = [f"new-{step}-{i}" for i in range(data.draw(st.integers(0, 2)))]
        current = [id_ for id_ in current if id_ not in gone] + fresh
        versions.append(current)
    always = set(ids(size)).intersection(*versions) if versions else set(ids(size))
    found = read_ids(await collect(Pages(ids(size), cap, versions)))
    if found is not None:
        assert always <= set(found)
        assert len(found) == len(set(found))
