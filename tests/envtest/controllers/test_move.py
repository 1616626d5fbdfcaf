"""Objects that lose their status or their identity: what is held is found again."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kubelocal import LocalCluster
from tests.conftest import installed_cluster
from tests.envtest.controllers.stage import CREATE_VM, DUMMY, RECORD, Stage
from tests.envtest.controllers.workload import forget, give_kubeconfig, joined, put_control_plane
from tests.support.scenario import Object, condition
from vcosim.control import Action, Match

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


MOVED = ("leader", "settled")


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a second management cluster."""
    with installed_cluster(tmp_path_factory.mktemp("elsewhere")) as cluster:
        yield cluster


@pytest.fixture
def moving(management_cluster: LocalCluster, tmp_path: Path) -> Iterator[Stage]:
    """Give a cluster that may be moved: its machines have nodes."""
    give = partial(give_kubeconfig, cluster="demo")
    with Stage.opened(management_cluster, tmp_path / "stage", before=give) as made:
        put_control_plane(made, "leader", "demo")
        made.put_machine("settled", gpu=DUMMY | {"count": 2})
        made.up("leader", "settled")
        made.until("the nodes", lambda: joined(made, "leader", "settled"))
        yield made
        forget(made)


def paused(found: Object | None) -> bool:
    """Say whether whoever acts on an object has seen that it must not."""
    return condition(found or {}, "Paused").get("status") == "True"


def facts(found: Object) -> Object:
    """Return the status without the times of its conditions."""
    status: Object = found["status"]
    conditions = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
    return status | {"conditions": sorted(conditions)}


def test_a_status_that_was_wiped(stage: Stage) -> None:
    """It is rebuilt as it was, of machine and cluster; nothing is bought or changed."""
    stage.put_machine("amnesiac", gpu=DUMMY | {"count": 2})
    stage.up("amnesiac")
    machine = facts(stage.vco_machine("amnesiac"))
    cluster = facts(stage.get("vcoclusters", "demo") or {})
    before = stage.now()

    def wipe() -> None:
        stage.wipe_status("amnesiac")
        stage.wipe_status("demo", "vcoclusters")

    stage.restart_manager(wipe)
    stage.up("amnesiac")
    stage.until(
        "the cluster's status", lambda: condition(stage.get("vcoclusters", "demo") or {}, "Ready")
    )
    assert facts(stage.vco_machine("amnesiac")) == machine
    assert facts(stage.get("vcoclusters", "demo") or {}) == cluster
    assert stage.mutations(after=before) == []
    stage.down("amnesiac")
    assert stage.holdings("amnesiac") == []


def test_a_record_that_somebody_removed(stage: Stage) -> None:
    """Nothing is bought, forgotten or released on a guess; put back, all goes on."""
    stage.put_machine("robbed", gpu=DUMMY)
    stage.up("robbed")
    record = stage.vco_machine("robbed")["metadata"]["annotations"][RECORD]
    stage.patch("vcomachines", "robbed", {"metadata": {"annotations": {RECORD: None}}})
    before = stage.now()
    assert "restore it" in stage.says("robbed", "RecordUnreadable")
    stage.delete("machines", "robbed")
    stage.deleting("robbed")
    stage.says("robbed", "RecordUnreadable")
    assert stage.mutations(after=before) == []
    assert len(stage.holdings("robbed")) == 1
    stage.patch("vcomachines", "robbed", {"metadata": {"annotations": {RECORD: record}}})
    stage.vanished("robbed")
    assert stage.holdings("robbed") == []


def test_a_backup_restored_in_the_middle(stage: Stage) -> None:
    """Two vGPUs are held, the VM is not made yet, all identities change: nothing is made twice."""
    faults = stage.simulator.control.faults
    rule = faults.add(Action(kind="lose_before"), Match(method="POST", route=CREATE_VM))
    stage.put_machine("halfway", gpu=DUMMY | {"count": 2})
    stage.until("both reservations", lambda: len(stage.bought("halfway")) == 2)
    stage.says("halfway", "WaitingForPlatform")
    pause = {"spec": {"paused": True}}
    stage.patch("clusters", "demo", pause)
    kinds = ("vcomachines", "machines")
    stage.until("the pause", lambda: all(paused(stage.get(kind, "halfway")) for kind in kinds))
    before = stage.now()
    saved = [stage.manifest(kind, "halfway") for kind in kinds]
    # In this order: to what is being deleted, nobody can add a finalizer again.
    for kind in kinds:
        stage.delete(kind, "halfway")
        stage.strip(kind, "halfway")
    stage.until("both gone", lambda: all(stage.gone(kind, "halfway") for kind in kinds))
    stage.apply(*saved)
    stage.patch("clusters", "demo", {"spec": {"paused": None}})
    stage.until("a look", lambda: stage.reason("halfway") == "WaitingForPlatform")
    assert not [c for c in stage.mutations(after=before) if c.route.endswith("/gpus/{gpu_id}")]
    faults.remove(rule.id)
    stage.up("halfway")
    assert len(stage.bought("halfway")) == 2
    assert stage.vms_ever("halfway") == 1
    stage.down("halfway")
    assert stage.holdings("halfway") == []


def test_clusterctl_move(moving: Stage, elsewhere: LocalCluster, tmp_path: Path) -> None:
    """The real one, to another management cluster, both managers at work all the time.

    Identities are new, the status is lost: all is found again, nothing is bought, released or
    changed by either, and in the end the new one releases all.
    """
    (tmp_path / "target").mkdir()
    target = Stage(elsewhere, moving.simulator, tmp_path / "target", moving.namespace)
    machine = facts(moving.vco_machine("settled"))
    cluster = facts(moving.get("vcoclusters", "demo") or {})
    before, identity = moving.now(), identities(moving)
    for secret in ("vco-credentials", *(f"{name}-bootstrap" for name in MOVED)):
        moving.kubectl("label", "secret", secret, "clusterctl.cluster.x-k8s.io/move=")
    elsewhere.kubectl("create", "namespace", moving.namespace)
    target.start_manager()
    try:
        to = ("--to-kubeconfig", str(elsewhere.kubeconfig), "--namespace", moving.namespace)
        config = ("--kubeconfig", str(moving.cluster.kubeconfig))
        moving.cluster.clusterctl("move", *to, *config)
        assert all(moving.gone("vcomachines", name) for name in MOVED)
        assert moving.gone("vcoclusters", "demo")
        target.up(*MOVED)
        provider_ids = {name: provider_id for name, (_, provider_id) in identity.items()}
        assert {name: new[1] for name, new in identities(target).items()} == provider_ids
        assert all(identity[name][0] != new[0] for name, new in identities(target).items())
        assert facts(target.vco_machine("settled")) == machine
        assert facts(target.get("vcoclusters", "demo") or {}) == cluster
        assert moving.mutations(after=before) == []
        target.delete("clusters", "demo")
        target.until("the cluster gone", lambda: target.gone("clusters", "demo"))
        assert target.refused() == 0
    finally:
        target.kill_manager()
    assert moving.holdings() == []
    assert len(moving.bought()) == 2
    assert moving.vm_names() == []


def identities(stage: Stage) -> dict[str, tuple[str, str]]:
    """Return the UID and the provider id of the machines that move."""
    found = {name: stage.vco_machine(name) for name in MOVED}
    return {n: (o["metadata"]["uid"], o["spec"]["providerID"]) for n, o in found.items()}
