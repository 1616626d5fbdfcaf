"""Whatever call the manager dies after, whatever answer is lost: no leak, no double, no theft."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.chaos.provider.lives import CloudTrouble, Life, WriteTrouble, live_all, wrongs
from tests.support.kubeproxy import kube_proxy
from vcosim.control import Action

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
CALLS = range(1, 13)
"""Cloudspace, pool, balancer, reserve, VM, attach, start; then backwards, without the last two."""

WRITES = range(1, 17)
"""Finalizers, records, statuses, in whatever order; more than a life has."""

FEWEST_WRITES = 8
KILLED = Action(kind="slow", seconds=600, committed=True)
LOST = Action(kind="lose_after")
GATEWAY = Action(kind="status", status=504, html=True, committed=True)


def _killed(calls: Iterable[int]) -> list[Life]:
    return [Life(f"killed-{n}", 1, CloudTrouble(KILLED, n), kill=True) for n in calls]


def _lost(calls: Iterable[int]) -> list[Life]:
    return [Life(f"lost-{n}", 2, CloudTrouble(LOST, n)) for n in calls]


def _gateway(calls: Iterable[int]) -> list[Life]:
    return [Life(f"gateway-{n}", 1, CloudTrouble(GATEWAY, n)) for n in calls]


def _live(cluster: LocalCluster, folder: Path, lives: list[Life]) -> None:
    lived = live_all(cluster, folder, lives)
    assert not (wrong := wrongs(lived)), wrong
    assert all(one.struck for one in lived), [one.life.name for one in lived if not one.struck]


def test_killed_after_every_call(management_cluster: LocalCluster, tmp_path: Path) -> None:
    """One GPU; the manager is killed while the answer to a call is on its way."""
    _live(management_cluster, tmp_path, _killed(CALLS))


def test_answers_lost_where_money_is(management_cluster: LocalCluster, tmp_path: Path) -> None:
    """Two GPUs with a lost answer, one with a gateway's page, at the calls that cost or release."""
    _live(management_cluster, tmp_path, [*_lost((4, 5, 6, 10)), *_gateway((4, 5, 8, 9))])


@pytest.mark.full
def test_answers_lost_everywhere(management_cluster: LocalCluster, tmp_path: Path) -> None:
    """The same at every call."""
    _live(management_cluster, tmp_path, [*_lost(range(1, 15)), *_gateway(CALLS)])


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param(WRITES[1::3], id="some"),
        pytest.param(WRITES, id="every", marks=pytest.mark.full),
    ],
)
def test_killed_after_a_write(
    management_cluster: LocalCluster, tmp_path: Path, writes: range
) -> None:
    """Two GPUs; the manager is killed before it learns that a write to Kubernetes was done."""
    cluster = management_cluster
    with ExitStack() as stack:
        lives = []
        for n in writes:
            proxy = stack.enter_context(kube_proxy(cluster.url, cluster.ca_pem))
            lives.append(Life(f"write-{n}", 2, WriteTrouble(proxy, n), kill=True))
        lived = live_all(cluster, tmp_path, lives)
    assert not (wrong := wrongs(lived)), wrong
    # A life has about a dozen writes; the trouble cannot come where there is none any more.
    assert all(one.struck for n, one in zip(writes, lived, strict=True) if n <= FEWEST_WRITES)
