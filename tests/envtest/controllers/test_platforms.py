"""Where the platform's description is silent: the normal life, whichever way it behaves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.envtest.controllers.stage import DUMMY, Stage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
SLOW_ENOUGH = {"deploy_seconds": 0.5, "start_seconds": 0.5, "attach_seconds": 0.5}
PLATFORMS: dict[str, dict[str, object]] = {
    "early": {"replies": "early", **SLOW_ENOUGH},
    "early-423": {"replies": "early", "busy_status": 423, **SLOW_ENOUGH},
    "bin": {"delete_with_vgpu": "bin", "unattached_vm": "empty"},
    "refuse": {"delete_with_vgpu": "refuse", "unattached_vm": "null-id"},
    "release": {"delete_with_vgpu": "release", "absent_fields": "omit"},
    "keep": {"delete_with_vgpu": "keep", "no_schema_body": "empty"},
    "hot-plug": {"attach_needs_halted": False, "vgpu_name_unique": True, "no_schema_body": "null"},
    "throttled": {"requests_per_second": 6, "bin_reserves_names": False},
}
CALM = {"sync-period": "5s", "capacity-interval": "2s", "poll-interval": "1s"}
"""Pace of the manager, near enough to the platform's that it still meets refusals."""
AT_ONCE = 4


def life(cluster: LocalCluster, folder: Path, switches: dict[str, object]) -> None:
    """Two GPUs, one VM, all attached and running; the VM deleted by hand or not; all released."""
    throttled = "requests_per_second" in switches
    with Stage.opened(cluster, folder, flags=CALM if throttled else {}, switches=switches) as stage:
        stage.put_machine("worker", gpu=DUMMY | {"count": 2})
        stage.put_machine("stray", gpu=DUMMY)
        stage.up("worker", "stray", seconds=90)
        gpus = stage.vco_machine("worker")["status"]["gpus"]
        assert [gpu["attached"] for gpu in gpus] == [True, True]
        assert len(stage.holdings()) == 3
        vm = stage.vm("stray")
        assert vm
        detach = switches.get("delete_with_vgpu") == "refuse"
        stage.simulator.control.hand.delete_vm(vm, detach_gpu=detach)
        stage.until("its absence to be seen", lambda: stage.reason("stray") in GONE, 90)
        stage.delete("clusters", "demo")
        stage.until("the end", lambda: stage.gone("clusters", "demo"), 120)
        assert stage.holdings() == []
        assert len(stage.bought()) == 3
        assert stage.vms_ever("worker") == stage.vms_ever("stray") == 1
        assert stage.vm_names() == []
        counts = stage.simulator.control.counts()
        assert any(count.status == 429 for count in counts) == throttled


GONE = {"VMGone", "GPUReservationLost"}


@pytest.fixture(scope="module")
def lives(
    management_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Live all lives, some at a time; give what went wrong in each."""

    def one(name: str) -> str:
        try:
            life(management_cluster, tmp_path_factory.mktemp(name), PLATFORMS[name])
        except AssertionError as error:
            return str(error) or repr(error)
        return ""

    with ThreadPoolExecutor(AT_ONCE) as workers:
        yield dict(zip(PLATFORMS, workers.map(one, PLATFORMS), strict=True))


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_platform(lives: dict[str, str], name: str) -> None:
    """The life that a machine has on it is the same."""
    assert not lives[name], lives[name]
