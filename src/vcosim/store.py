"""The simulator's memory: one sqlite file (WAL) that survives a kill at any moment."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from vcosim.records import KINDS, Record

R = TypeVar("R", bound=Record)

TABLES = """
CREATE TABLE IF NOT EXISTS objects (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL, location TEXT NOT NULL, id TEXT NOT NULL,
  parent TEXT NOT NULL, name TEXT NOT NULL, link TEXT NOT NULL,
  binned INTEGER NOT NULL, due REAL, doc BLOB NOT NULL,
  UNIQUE (kind, location, id));
CREATE INDEX IF NOT EXISTS by_parent ON objects (kind, parent, location, binned);
CREATE INDEX IF NOT EXISTS by_name ON objects (kind, parent, name);
CREATE INDEX IF NOT EXISTS by_link ON objects (kind, location, link);
CREATE INDEX IF NOT EXISTS by_due ON objects (due) WHERE due IS NOT NULL;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, location TEXT NOT NULL, vgpu_id TEXT NOT NULL,
  customer TEXT NOT NULL, name TEXT NOT NULL, gpu_id TEXT NOT NULL,
  reserved_at REAL NOT NULL, released_at REAL, vms TEXT NOT NULL,
  UNIQUE (location, vgpu_id));
CREATE INDEX IF NOT EXISTS held ON ledger (location, gpu_id) WHERE released_at IS NULL;
CREATE TABLE IF NOT EXISTS calls (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, mutating INTEGER, method TEXT NOT NULL,
  route TEXT NOT NULL, path TEXT NOT NULL, query TEXT NOT NULL, client TEXT NOT NULL,
  status INTEGER NOT NULL, fault TEXT NOT NULL, started REAL NOT NULL, ended REAL);
CREATE INDEX IF NOT EXISTS by_route ON calls (method, route);
CREATE TABLE IF NOT EXISTS breaches (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, at REAL NOT NULL,
  method TEXT NOT NULL, path TEXT NOT NULL, client TEXT NOT NULL, why TEXT NOT NULL);
"""
WORLD_TABLES = ("objects", "counters", "ledger")
UPSERT = """
INSERT INTO objects (kind, location, id, parent, name, link, binned, due, doc)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, location, id) DO UPDATE SET parent = excluded.parent, name = excluded.name,
  link = excluded.link, binned = excluded.binned, due = excluded.due, doc = excluded.doc
"""


class Outline(NamedTuple):
    """The columns of one record."""

    id: str
    parent: str
    name: str
    link: str


class Store:
    """Records by kind, location and id, in the order of their making."""

    def __init__(self, path: str = ":memory:") -> None:
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # NORMAL: a commit survives the death of the process, which is what is simulated here.
        self.db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + TABLES)
        self._encoder = msgspec.json.Encoder()
        self._decoders = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; may be nested, then the outermost one counts."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def get(self, kind: type[R], location: str, key: str) -> R | None:
        """Return one record, or None."""
        row = self.db.execute(
            "SELECT doc FROM objects WHERE kind = ? AND location = ? AND id = ?",
            (kind.kind, location, key),
        ).fetchone()
        return self._decoded(kind, row[0]) if row else None

    def put(self, record: Record) -> None:
        """Insert or replace."""
        due = record.step.due if record.step else None
        self.db.execute(
            UPSERT,
            (
                record.kind, record.location, record.id, record.parent, record.name, record.link,
                int(record.binned > 0), due, self._encoder.encode(record),
            ),
        )  # fmt: skip

    def drop(self, record: Record) -> None:
        """Remove; a record that is not there is no error."""
        self.db.execute(
            "DELETE FROM objects WHERE kind = ? AND location = ? AND id = ?",
            (record.kind, record.location, record.id),
        )

    def find(  # noqa: PLR0913 - each is one optional filter
        self,
        kind: type[R],
        *,
        location: str | None = None,
        parent: str | None = None,
        name: str | None = None,
        link: str | None = None,
        binned: bool | None = None,
        limit: int = -1,
        offset: int = 0,
    ) -> list[R]:
        """Return the records that fit all given filters, oldest first."""
        where, values = _where(kind, location, parent, name, link, binned)
        rows = self.db.execute(
            f"SELECT doc FROM objects WHERE {where} ORDER BY seq LIMIT ? OFFSET ?",  # noqa: S608 - fixed column names
            (*values, limit, offset),
        )
        return [self._decoded(kind, row[0]) for row in rows]

    def outlines(
        self,
        kind: type[Record],
        *,
        location: str | None = None,
        parent: str | None = None,
        binned: bool | None = None,
    ) -> list[Outline]:
        """Return what the columns say of the records that fit: many times faster than reading."""
        where, values = _where(kind, location, parent, None, None, binned)
        query = f"SELECT id, parent, name, link FROM objects WHERE {where} ORDER BY seq"  # noqa: S608 - fixed column names
        return [Outline(*row) for row in self.db.execute(query, values)]

    def count(
        self,
        kind: type[R],
        *,
        location: str | None = None,
        parent: str | None = None,
        binned: bool | None = None,
    ) -> int:
        """Count the records that fit all given filters."""
        where, values = _where(kind, location, parent, None, None, binned)
        query = f"SELECT count(*) FROM objects WHERE {where}"  # noqa: S608 - fixed column names
        return int(self.db.execute(query, values).fetchone()[0])

    def due(self, now: float) -> Record | None:
        """Return the record whose step ended longest ago, if any step has ended."""
        row = self.db.execute(
            "SELECT kind, doc FROM objects WHERE due <= ? ORDER BY due, seq LIMIT 1", (now,)
        ).fetchone()
        return self._decoded(KINDS[row[0]], row[1]) if row else None

    def number(self, name: str, first: int = 1) -> int:
        """Return the next number of a counter, starting with ``first``."""
        self.db.execute(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + 1",
            (name, first),
        )
        row = self.db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return int(row[0])

    def fact(self, name: str) -> bytes | None:
        """Return a remembered setting as JSON, or None."""
        row = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return bytes(row[0]) if row else None

    def remember(self, name: str, value: object) -> None:
        """Keep a setting, as JSON."""
        self.db.execute(
            "INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, self._encoder.encode(value))
        )

    def snapshot(self) -> "Store":
        """Return a copy in memory: the world as it is now, whatever happens next."""
        copy = Store()
        self.db.backup(copy.db)
        return copy

    def clear_world(self) -> None:
        """Forget all objects, counters and the ledger."""
        for table in WORLD_TABLES:
            self.db.execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names

    def everything(self) -> dict[str, list[dict[str, object]]]:
        """Return all records by kind, as plain values."""
        world: dict[str, list[dict[str, object]]] = {}
        for kind, doc in self.db.execute("SELECT kind, doc FROM objects ORDER BY seq"):
            world.setdefault(kind, []).append(msgspec.json.decode(doc))
        return world

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def _decoded(self, kind: type[R], doc: bytes) -> R:
        decoded = self._decoders[kind.kind].decode(doc)
        if not isinstance(decoded, kind):
            raise TypeError(f"stored {decoded!r} is no {kind.__name__}")
        return decoded


def _where(  # noqa: PLR0913, PLR0917 - each is one optional filter
    kind: type[Record],
    location: str | None,
    parent: str | None,
    name: str | None,
    link: str | None,
    binned: bool | None,
) -> tuple[str, list[str | int]]:
    filters: dict[str, str | int | None] = {
        "kind": kind.kind,
        "location": location,
        "parent": parent,
        "name": name,
        "link": link,
        "binned": None if binned is None else int(binned),
    }
    given = {column: value for column, value in filters.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given), list(given.values())
