"""The objects of one kind as a cache holds them: what counts as newer, and the indexes.

Pure: no I/O, no clock. Every method returns the changes it made, for the handlers.

Two sources feed a store: the stream (list and watch), and the answers to our own writes
(``assume``). An answer counts only while it is ahead of the stream: up to its position the
stream has told everything, deletions included.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from capvco.runtime.kinds import Key, T, key_of, version_of
from capvco.runtime.stream import Broken, Drop, Listing


@dataclass(frozen=True)
class Change(Generic[T]):
    """What became of an object: created (no old), changed, or deleted (no new)."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by key, and by the values that the index functions give them.

    An index function is pure and does not raise.
    """

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[str]]]) -> None:
        self._functions = dict(indexes)
        self._objects: dict[Key, T] = {}
        # A dict instead of a set, so that what by_index returns has a stable order.
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in indexes}
        self._assumed: dict[Key, int] = {}
        self._position = 0

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        """Return an object, or None."""
        return self._objects.get(key)

    def all(self) -> list[T]:
        """Return all objects."""
        return [*self._objects.values()]

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects to which an index gives a value; raises KeyError for no such index."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def assume(self, obj: T) -> list[Change[T]]:
        """Take the answer to our own write, if it is news."""
        meta = obj.metadata
        if meta.deletion_timestamp and not meta.finalizers:
            return []  # nothing holds it any more: its deletion is on the way
        key, version = key_of(obj), version_of(obj)
        if version <= max(self._position, self._version(key)):
            return []
        changes = self._set(key, obj)
        self._assumed[key] = version
        return changes

    def put(self, obj: T) -> list[Change[T]]:
        """Take a created or changed object from the watch."""
        key, version = key_of(obj), version_of(obj)
        self.advance(version)
        known = self._version(key)
        if version == known:
            self._assumed.pop(key, None)
        return self._set(key, obj) if version > known else []

    def drop(self, event: Drop) -> list[Change[T]]:
        """Take a deletion from the watch."""
        self.advance(int(event.version or 0))
        # An object of that name with another uid was assumed, and is a later one.
        return [self._unset(event.key)] if self._is(event.key, event.uid) else []

    def keep(self, event: Broken) -> None:
        """Take an object from the watch that cannot be decoded: its former state stays."""
        self.advance(int(event.version or 0))

    def replace(self, listing: Listing[T]) -> list[Change[T]]:
        """Take a whole list: what it does not name has disappeared, unless it is ahead of it."""
        self._position = at = int(listing.version or 0)
        kept = {broken.key for broken in listing.broken if self._is(broken.key, broken.uid)}
        kept |= {key for key, version in self._assumed.items() if version > at}
        listed = {key_of(obj): obj for obj in listing.items}
        vanished = [key for key in self._objects if key not in listed and key not in kept]
        changes = [self._unset(key) for key in vanished]
        for key, obj in listed.items():
            # The list rules even where its version is smaller, since a cluster may be restored
            # from a backup; only our own writes that it cannot know yet are kept.
            if key not in kept and version_of(obj) != self._version(key):
                changes += self._set(key, obj)
        return changes

    def advance(self, version: int) -> None:
        """Note that the stream has told everything up to a version."""
        self._position = max(self._position, version)

    def _is(self, key: Key, uid: str) -> bool:
        present = self._objects.get(key)
        return present is not None and present.metadata.uid == uid

    def _version(self, key: Key) -> int:
        present = self._objects.get(key)
        return version_of(present) if present is not None else -1

    def _set(self, key: Key, obj: T) -> list[Change[T]]:
        changes: list[Change[T]] = []
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            changes.append(self._unset(key))  # another object took the name
            old = None
        self._unindex(key, old)
        self._objects[key] = obj
        self._assumed.pop(key, None)
        for name, function in self._functions.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = None
        return [*changes, Change(old, obj)]

    def _unset(self, key: Key) -> Change[T]:
        old = self._objects.pop(key)
        self._unindex(key, old)
        self._assumed.pop(key, None)
        return Change(old, None)

    def _unindex(self, key: Key, old: T | None) -> None:
        if old is None:
            return
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                keys = index.get(value, {})
                keys.pop(key, None)
                if not keys:
                    index.pop(value, None)
