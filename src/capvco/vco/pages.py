"""Reads a list in pages so that nothing is missed, though it may change meanwhile.

A list that is read in pages can lose an entry without a trace: when an earlier entry goes, the rest
moves up, and one slips over the edge between two pages. So every page begins with the last entry
of the page before it, the total must stay the same, and the entries must add up to it. Anything
else is no reading at all.
"""

from collections.abc import Awaitable, Callable

from capvco.vco.models import VGPU, VGPUPage

PAGE = 100

Fetch = Callable[[int, int], Awaitable[VGPUPage]]
"""Returns the page that begins at an index, with at most so many entries; 0 means all."""


async def collect(fetch: Fetch) -> tuple[VGPU, ...] | None:
    """Read the whole list once; None if the pages contradict each other.

    Asks for everything in one page first, which cannot change meanwhile; a server may give less.
    """
    first = await fetch(0, 0)
    count = first.pagination.count
    found = list(first.data)
    while len(found) < count:
        start = max(len(found) - 1, 0)
        page = await fetch(start, PAGE)
        if page.pagination.count != count:
            return None
        fresh = _after(found, page.data)
        if not fresh:
            return None
        found += fresh
    ids = {vgpu.vgpu_id for vgpu in found}
    return tuple(found) if len(ids) == len(found) == count else None


def _after(found: list[VGPU], data: tuple[VGPU, ...]) -> tuple[VGPU, ...]:
    """Return what a page adds, or nothing if it does not continue what was found."""
    if not found:
        return data
    if not data or data[0].vgpu_id != found[-1].vgpu_id:
        return ()
    return data[1:]
