"""What the whole provider hands to the platform as user data, by what the pool says."""

from functools import partial

import pytest

from tests.support.scenario import LOCATION, Scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def commands(scenario: Scenario, name: str) -> list[object]:
    """Return the commands that the VM of a machine got."""
    control = scenario.simulator.control
    (vm,) = (vm for vm in control.vms() if vm.name == name)
    found = control.userdata(LOCATION, vm.id).userdata
    assert found is not None
    runcmd: list[object] = found["runcmd"]
    return runcmd


def test_first_boot_installs_what_the_pool_wants(scenario: Scenario) -> None:
    """Kubernetes of the Machine's version unless the pool says Never."""
    scenario.put_cluster()
    scenario.put_machine("plain")
    scenario.put_machine("baked", installKubernetes="Never")
    scenario.start_manager()
    for name in ("plain", "baked"):
        scenario.until(f"{name} running", partial(scenario.running, name))
    join = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml"
    step = ["/bin/bash", "/opt/capvco/kubernetes/kubernetes.sh", "boot"]
    assert commands(scenario, "plain") == [step, join]
    assert commands(scenario, "baked") == [join]
