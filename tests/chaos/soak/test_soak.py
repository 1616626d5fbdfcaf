"""1,000 machines, a fault in every twentieth call, the manager killed every 30 seconds."""

from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.chaos.soak.soak import Soak, wanted
from tests.chaos.stateful.apiserver import Apiserver
from tests.chaos.stateful.world import World
from tests.support.simulator import running_simulator

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(3600)]


def test_a_pool_comes_and_goes(
    control_plane: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All provisioned, all deleted, none leaked, none doubled, nothing foreign touched."""
    with (
        running_simulator(tmp_path, as_process=True, page_cap=100) as simulator,
        Apiserver(control_plane, control_plane.create_namespace("soak")) as kube,
    ):
        kubeconfig = World.made(control_plane, simulator, tmp_path).kubeconfig
        soak = Soak(kube, simulator, kubeconfig, tmp_path, wanted(1000))
        soak.prepare()
        soak.trouble()
        with soak.managed():
            up = soak.bring_up()
            soak.check_up()
            down = soak.take_down()
            soak.check_gone()
        with capsys.disabled():
            print(f"\n{soak.figures(up, down)}")  # noqa: T201 - the figures are what it is for
