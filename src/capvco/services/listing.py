"""A list of the cloud, indexed once for all the machines that look something up in it.

Each of many machines looks at a list that names them all: read from end to end by each, the cost
of looking would grow with their square.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Listing(Generic[T]):
    """The entries of one list, found by id or by name. Not to be changed."""

    def __init__(
        self, entries: Iterable[T], id_of: Callable[[T], Hashable], name_of: Callable[[T], str]
    ) -> None:
        """Index the entries; neither ids nor names need be unique."""
        self._entries = tuple(entries)
        self._by_id: dict[Hashable, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        for index, entry in enumerate(self._entries):
            self._by_id.setdefault(id_of(entry), []).append(index)
            self._by_name.setdefault(name_of(entry), []).append(index)

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        """Go through all entries, in the order of the list."""
        return iter(self._entries)

    def about(
        self, *, ids: Collection[Hashable] = (), names: Collection[str] = ()
    ) -> tuple[T, ...]:
        """Return the entries that have one of these ids or names, in the order of the list."""
        found = {index for key in ids for index in self._by_id.get(key, ())}
        found |= {index for name in names for index in self._by_name.get(name, ())}
        return tuple(self._entries[index] for index in sorted(found))
