"""Whatever call the manager dies after, whatever answer is lost: no leak, no double, no theft."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.chaos.provider.lives import CloudTrouble, Life, WriteTrouble, live_all
from tests.support.kubeproxy import kube_proxy
from vcosim.control import Action

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
CALLS = range(1, 13)
"""Cloudspace, pool, balancer, reserve, VM, attach, start; then backwards, without the last two."""

WRITES = range(1, 14)
"""Finalizers, records, statuses, in whatever order; the last ones drop the finalizers."""

KILLED = Action(kind="slow", seconds=600, committed=True)
LOST = Action(kind="lose_after")
GATEWAY = Action(kind="status", status=504, html=True, committed=True)


@pytest.mark.parametrize(
    ("word", "action", "kill"),
    [("killed", KILLED, True), ("lost", LOST, False), ("gateway", GATEWAY, False)],
)
def test_every_call(
    management_cluster: LocalCluster, tmp_path: Path, word: str, action: Action, kill: bool
) -> None:
    """One machine with one GPU, once for every mutating call of its life."""
    lives = [Life(f"{word}-{n}", 1, CloudTrouble(action, n), kill) for n in CALLS]
    wrong = live_all(management_cluster, tmp_path, lives)
    assert not wrong, "\n\n".join(wrong)


def test_every_write(management_cluster: LocalCluster, tmp_path: Path) -> None:
    """One machine with two GPUs, killed after every write to Kubernetes of its life."""
    cluster = management_cluster
    with ExitStack() as stack:
        lives = []
        for n in WRITES:
            proxy = stack.enter_context(kube_proxy(cluster.url, cluster.ca_pem))
            lives.append(Life(f"write-{n}", 2, WriteTrouble(proxy, n), kill=True))
        wrong = live_all(cluster, tmp_path, lives)
    assert not wrong, "\n\n".join(wrong)
