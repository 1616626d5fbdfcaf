"""Whatever call the manager dies after, whatever answer is lost: no leak, no double, no theft."""

from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.chaos.provider.lives import Life, live_all
from vcosim.control import Action

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
CALLS = range(1, 13)
"""Cloudspace, pool, balancer, reserve, VM, attach, start; then backwards, without the last two."""

KILLED = Action(kind="slow", seconds=600, committed=True)
LOST = Action(kind="lose_after")
GATEWAY = Action(kind="status", status=504, html=True, committed=True)


def _lives(count: int, calls: range, action: Action, word: str, *, kill: bool) -> list[Life]:
    return [Life(f"{word}-{count}-{n}", count, n, action, kill) for n in calls]


@pytest.mark.parametrize(
    ("word", "action", "kill"),
    [("killed", KILLED, True), ("lost", LOST, False), ("gateway", GATEWAY, False)],
)
def test_every_call(
    management_cluster: LocalCluster, tmp_path: Path, word: str, action: Action, kill: bool
) -> None:
    """One machine with one GPU, once for every mutating call of its life."""
    wrong = live_all(management_cluster, tmp_path, _lives(1, CALLS, action, word, kill=kill))
    assert not wrong, "\n\n".join(wrong)
