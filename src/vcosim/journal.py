"""What was asked: every call with its outcome, and every breach of the description."""

from typing import TypeVar

import msgspec

from vcosim.store import Store

T = TypeVar("T", bound=msgspec.Struct)

KEPT = 200_000
PRUNE_EVERY = 1_000


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it comes in."""

    method: str
    route: str
    """The template of its path; empty where there is none."""
    path: str
    query: str
    client: str
    """Who asks, if the token tells."""
    mutating: bool


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its numbers in the log."""

    seq: int
    mutating: int
    """Its number among the mutating calls; 0 for the others."""
    method: str
    route: str
    path: str
    client: str


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the log has it; ``ended`` is None while it is being answered."""

    seq: int
    mutating: int
    method: str
    route: str
    path: str
    query: str
    client: str
    status: int
    """What the cloud answered, or meant to; 0 when the call never reached it."""
    fault: str
    started: float
    ended: float | None


class Breach(msgspec.Struct, frozen=True, kw_only=True):
    """A request outside the description (client) or an answer outside it (simulator)."""

    seq: int
    kind: str
    at: float
    method: str
    path: str
    client: str
    why: str


class Count(msgspec.Struct, frozen=True):
    """How often a route was called and how it was answered."""

    method: str
    route: str
    status: int
    count: int


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to show; texts must be equal, ``path`` is a prefix."""

    method: str = ""
    route: str = ""
    path: str = ""
    client: str = ""
    mutating: bool = False
    after: int = 0
    limit: int = -1


class Journal:
    """The call log and the breach list, in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = store.db

    def arrive(self, one: Arrival, at: float) -> Visit:
        """Note a request before anything is done with it."""
        with self._store.transaction():
            number = self._store.number("call:mutating") if one.mutating else 0
            cursor = self._db.execute(
                "INSERT INTO calls"
                " (mutating, method, route, path, query, client, status, fault, started)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, '', ?)",
                (number, one.method, one.route, one.path, one.query, one.client, at),
            )
            seq = int(cursor.lastrowid or 0)
            if seq % PRUNE_EVERY == 0:
                self._db.execute("DELETE FROM calls WHERE seq <= ?", (seq - KEPT,))
        return Visit(
            seq=seq,
            mutating=number,
            method=one.method,
            route=one.route,
            path=one.path,
            client=one.client,
        )

    def leave(self, visit: Visit, status: int, fault: str, at: float) -> None:
        """Note how a request ended."""
        self._db.execute(
            "UPDATE calls SET status = ?, fault = ?, ended = ? WHERE seq = ?",
            (status, fault, at, visit.seq),
        )

    def breach(self, kind: str, visit: Visit, why: str, at: float) -> None:
        """Note that the description was broken."""
        self._db.execute(
            "INSERT INTO breaches (kind, at, method, path, client, why) VALUES (?, ?, ?, ?, ?, ?)",
            (kind, at, visit.method, visit.path, visit.client, why),
        )

    def breaches(self) -> list[Breach]:
        """Return all breaches, oldest first."""
        rows = self._db.execute(
            "SELECT seq, kind, at, method, path, client, why FROM breaches ORDER BY seq"
        )
        return [_as(Breach, row) for row in rows]

    def calls(self, wanted: Filter) -> list[Logged]:
        """Return the calls that fit, oldest first."""
        where, values = ["seq > ?"], [wanted.after]
        more: list[str] = []
        for column in ("method", "route", "client"):
            if value := getattr(wanted, column):
                where.append(f"{column} = ?")
                more.append(value)
        if wanted.path:
            where.append("substr(path, 1, length(?)) = ?")
            more += [wanted.path, wanted.path]
        if wanted.mutating:
            where.append("mutating > 0")
        columns = ", ".join(Logged.__struct_fields__)
        rows = self._db.execute(
            f"SELECT {columns} FROM calls WHERE {' AND '.join(where)} ORDER BY seq LIMIT ?",  # noqa: S608 - fixed column names
            (*values, *more, wanted.limit),
        )
        return [_as(Logged, row) for row in rows]

    def counts(self) -> list[Count]:
        """Return how often each route was called, by status."""
        rows = self._db.execute(
            "SELECT method, route, status, count(*) FROM calls"
            " GROUP BY method, route, status ORDER BY route, method, status"
        )
        return [Count(*row) for row in rows]

    def clear_calls(self) -> None:
        """Forget the calls; the counter of mutating calls starts again."""
        self._db.execute("DELETE FROM calls")
        self._db.execute("DELETE FROM counters WHERE name = 'call:mutating'")

    def clear_breaches(self) -> None:
        """Forget the breaches."""
        self._db.execute("DELETE FROM breaches")


def _as(kind: type[T], row: tuple[object, ...]) -> T:
    return kind(**dict(zip(kind.__struct_fields__, row, strict=True)))
