"""Whose turn it is: less and less often for each, and not more for many than for few."""

from bisect import bisect_left
from itertools import pairwise

import pytest

from capvco.controllers.turns import Turns
from capvco.runtime.kinds import Key

KEY, OTHER = Key("default", "a"), Key("default", "b")
PASS = 180.0
"""Seconds between two passes over a machine, as --sync-period has it."""


def test_less_and_less_often() -> None:
    """A minute after the first time, then after two, and at last every hour."""
    turns, told = Turns(), []
    for now in range(20_000):
        if turns.due(KEY, 0.0, now):
            told.append(now)
            turns.taken(KEY, 0.0, now)
    waits = [after - before for before, after in pairwise(told)]
    assert waits == [60, 120, 240, 480, 960, 1920, *[3600] * 4]


def test_another_life() -> None:
    """What was made again, or started again, is asked as if for the first time."""
    turns = Turns()
    turns.taken(KEY, 0.0, 1000.0)
    assert not turns.due(KEY, 0.0, 1001.0)
    assert turns.due(KEY, 1.0, 1001.0)
    assert turns.due(OTHER, 0.0, 1001.0)


@pytest.mark.parametrize("machines", [20, 200, 1000])
def test_many_cost_what_few_cost(machines: int) -> None:
    """Not more than ten in any minute, and each has its turn, in whatever step they come by."""
    turns, told, now = Turns(), [], 0.0
    keys = [Key("default", str(number)) for number in range(machines)]
    while now < 4 * 3600:
        for key in keys:
            if turns.due(key, 0.0, now):
                told.append((now, key))
                turns.taken(key, 0.0, now)
            now += PASS / machines
    moments = [moment for moment, _ in told]
    assert max(bisect_left(moments, m + 60) - i for i, m in enumerate(moments)) <= 10
    assert {key for _, key in told} == set(keys)
    first = {key: moment for moment, key in reversed(told)}
    assert max(first.values()) <= machines / 5 * 60 + PASS
