"""Room in a cloudspace's network: how much there is, who claims it, and what a refusal means."""

import pytest

from capvco.api.conditions import Reason
from capvco.services.room import Claims, no_room, places, speaks_of_room


@pytest.mark.parametrize(
    ("network", "most"),
    [
        ("192.168.103.0/24", 251),
        ("10.0.0.0/22", 1019),
        ("10.0.0.0/29", 3),
        ("10.0.0.0/30", -1),
        ("", None),
        ("somewhere", None),
    ],
)
def test_places(network: str, most: int | None) -> None:
    """Five addresses are nobody's; what cannot be read is not known."""
    assert places(network) == most


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Cloudspace prod has no room for another virtual machine", True),
        ("No free address in 192.168.103.0/24", True),
        ("no more IP addresses", True),
        ("IP addresses exhausted", True),
        ("Not enough resources available to provision the requested machine", False),
        ("Selected name already exists: worker-1", False),
        ("memory must be an even number of MiB from 512 to 1048576, not 3", False),
        ("Image 7 is CREATING and cannot be used", False),
        ("No such image. The address of the gateway is 192.168.0.1", False),
    ],
)
def test_what_a_refusal_means(words: str, expected: bool) -> None:
    """Want of addresses is told from all other refusals."""
    assert speaks_of_room(words) == expected


def test_claims() -> None:
    """Each claim counts for the others, until it is left or forgotten."""
    claims = Claims()
    claims.claim("cs-1", "a", 100.0)
    claims.claim("cs-1", "b", 200.0)
    claims.claim("cs-2", "c", 200.0)
    assert claims.of_others("cs-1", "a", 200.0) == {"b"}
    assert claims.of_others("cs-1", "new", 399.0) == {"a", "b"}
    assert claims.of_others("cs-1", "new", 400.0) == {"b"}
    assert claims.at_most("cs-1") == 2
    claims.claim("cs-1", "a", 400.0)
    assert claims.at_most("cs-1") == 2
    claims.claim("cs-1", "c", 600.0)
    assert claims.at_most("cs-1") == 2
    claims.claim("cs-1", "b", 601.0)
    claims.leave("cs-1", "b")
    claims.leave("cs-3", "b")
    assert claims.of_others("cs-1", "new", 601.0) == {"a", "c"}
    assert claims.at_most("cs-9") == 0


def test_what_waiting_costs() -> None:
    """It is said how many vGPUs are billed meanwhile, if any are."""
    assert "billed" not in no_room("full", 30.0, 0).message
    pending = no_room("full", 30.0, 2)
    assert "2 vGPU(s) are held and billed meanwhile" in pending.message
    assert (pending.reason, pending.failure) == (Reason.CLOUDSPACE_FULL, True)
