"""The course of machines from the lines of a watch."""

import json
import threading
from collections.abc import Iterator

import pytest

from bench.timeline import Late, Timeline, thinned

EMPTY = b'{"items":[]}'


def event(kind: str, name: str, *, provisioned: bool | None = None) -> bytes:
    status = {} if provisioned is None else {"initialization": {"provisioned": provisioned}}
    return json.dumps(
        {"type": kind, "object": {"metadata": {"name": name}, "status": status}}
    ).encode()


def test_machines_come_are_provisioned_and_go() -> None:
    """Each change of the two numbers is a point; repeats are none."""
    clock = iter(range(100))
    line = Timeline(clock=lambda: float(next(clock)))
    line.follow(
        [
            (
                EMPTY,
                [
                    event("ADDED", "a"),
                    event("ADDED", "b"),
                    event("MODIFIED", "a"),
                    event("MODIFIED", "a", provisioned=True),
                    event("MODIFIED", "a", provisioned=True),
                    event("DELETED", "a", provisioned=True),
                ],
            )
        ]
    )
    assert [(there, up) for _, there, up in line.points] == [(0, 0), (1, 0), (2, 0), (2, 1), (1, 0)]
    times = [at for at, _, _ in line.points]
    assert times == sorted(times)


def test_a_list_says_what_a_watch_has_missed() -> None:
    """An API server may end a watch, and machines go meanwhile."""
    listed = json.dumps(
        {
            "items": [
                {"metadata": {"name": "b"}, "status": {"initialization": {"provisioned": True}}}
            ]
        }
    )
    line = Timeline()
    line.follow([(EMPTY, [event("ADDED", "a"), event("ADDED", "b")]), (listed.encode(), [])])
    assert [(there, up) for _, there, up in line.points] == [(0, 0), (1, 0), (2, 0), (1, 1)]


def test_waiting_ends_when_it_is_so() -> None:
    """While the watch goes on."""
    more = threading.Event()

    def lines() -> Iterator[bytes]:
        yield event("ADDED", "a", provisioned=True)
        more.wait(10)

    line = Timeline()
    feeder = threading.Thread(target=line.follow, args=([(EMPTY, lines())],))
    feeder.start()
    line.wait("one", lambda now: now.provisioned == 1, patience=10)
    more.set()
    feeder.join()


def test_waiting_ends_when_nothing_moves() -> None:
    """A run that is stuck does not wait for ever, and says what there was."""
    with pytest.raises(Late, match=r"3 machines: nothing moved for 0 s; 0 machines exist"):
        Timeline().wait("3 machines", lambda now: now.existing == 3, patience=0.01)


@pytest.mark.parametrize("line", [event("ERROR", "a"), b"{not json"])
def test_a_watch_that_breaks_is_told(line: bytes) -> None:
    """Figures from half a watch would be wrong."""
    timeline = Timeline()
    timeline.follow([(EMPTY, [line])])
    with pytest.raises(Late, match="the watch broke"):
        timeline.wait("anything", lambda now: now.existing == 1, patience=10)


def test_a_watch_that_ends_is_told() -> None:
    """As one that breaks."""
    timeline = Timeline()
    timeline.follow([])
    with pytest.raises(Late, match="the watch ended"):
        timeline.wait("anything", lambda now: now.existing == 1, patience=10)


def test_thinning_keeps_the_last_of_each_step() -> None:
    """A picture needs no more, and its ends must be right."""
    points = [(0.0, 0, 0), (0.1, 1, 0), (0.2, 2, 0), (1.1, 2, 1), (1.2, 2, 2)]
    assert thinned(points, 1.0) == ((0.0, 0, 0), (0.2, 2, 0), (1.2, 2, 2))
