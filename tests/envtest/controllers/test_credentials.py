"""Credentials that are refused, repaired, or somebody else's."""

import pytest

from tests.envtest.controllers.stage import DUMMY, Stage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def refuse(stage: Stage) -> None:
    """Make the credentials useless: what was issued, and what new ones are issued for."""
    stage.put_credentials(clientSecret="wrong")
    stage.simulator.control.revoke_tokens()


def test_refused_in_life_and_in_deletion_then_repaired(stage: Stage) -> None:
    """The condition says so, everything is kept, and a new Secret is noticed without a restart."""
    stage.put_machine("living", gpu=DUMMY)
    stage.put_machine("dying", gpu=DUMMY)
    stage.up("living", "dying")
    refuse(stage)
    stage.says("living", "CredentialsRefused")
    stage.delete("machines", "dying")
    stage.deleting("dying")
    message = stage.says("dying", "CredentialsRefused")
    assert stage.simulator.client_secret not in message
    assert stage.vco_machine("living")["status"]["failureReason"] == "CredentialsRefused"
    assert len(stage.holdings("living", "dying")) == 2
    stage.put_credentials()
    stage.vanished("dying")
    stage.up("living")
    assert [row.name for row in stage.holdings("living", "dying")] == ["capvco-living-gpu-0"]
    assert "failureMessage" not in stage.vco_machine("living")["status"]
    assert len(stage.bought("living", "dying")) == 2
    stage.down("living")


def test_another_customers(stage: Stage) -> None:
    """There all of ours looks absent: nothing is bought, released or forgotten because of that."""
    stage.put_machine("kept", gpu=DUMMY)
    stage.put_machine("leaving", gpu=DUMMY)
    stage.up("kept", "leaving")
    clients = {client.id: client for client in stage.simulator.control.clients()}
    other = {
        "customerID": "other_2",
        "clientID": "other",
        "clientSecret": clients["other"].secret,
    }
    before = stage.now()
    stage.restart_manager(lambda: stage.put_credentials(**other))
    stage.delete("machines", "leaving")
    for name in ("kept", "leaving"):
        message = stage.says(name, "RecordUnreadable")
        assert "put the credentials of demo_1 back" in message
    stage.says("demo", "RecordUnreadable", "vcoclusters")
    assert stage.mutations(after=before) == []
    assert len(stage.holdings("kept", "leaving")) == 2
    stage.restart_manager(stage.put_credentials)
    stage.vanished("leaving")
    stage.up("kept")
    stage.down("kept")
    assert stage.holdings("kept", "leaving") == []


def test_a_missing_or_incomplete_secret(stage: Stage) -> None:
    """The condition names the Secret and what it needs; putting it there is enough."""
    stage.put_cluster("keyless", identityRef={"name": "elsewhere"})
    assert "elsewhere does not exist" in stage.says("keyless", "CredentialsInvalid", "vcoclusters")
    data = {"apiURL": stage.simulator.url, "customerID": stage.simulator.customer_id}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"}}
    stage.apply(secret | {"stringData": data})
    stage.put_cluster("half-keyed", identityRef={"name": "half"})
    message = stage.says("half-keyed", "CredentialsInvalid", "vcoclusters")
    assert "clientID, clientSecret and iamURL" in message
