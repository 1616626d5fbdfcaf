"""Machines that choose at the same moment choose different cards."""

import pytest

from capvco.services.claims import Claims


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_claim_counts_for_others_alone() -> None:
    """A machine knows what it reserved itself."""
    claims = Claims(Clock())
    with claims.claim("card", "a"):
        assert claims.of_others("b") == {"card": 1}
        assert claims.of_others("a") == {}


def test_a_claim_lasts_until_a_list_that_shows_it() -> None:
    """A list asked for before the reservation was answered may or may not show it."""
    clock = Clock()
    claims = Claims(clock)
    with claims.claim("card", "a"):
        clock.now = 105.0
    claims.listed(104.0)
    assert claims.of_others("b") == {"card": 1}
    claims.listed(105.1)
    assert claims.of_others("b") == {}


def test_a_list_does_not_end_a_claim_under_way() -> None:
    """However late the list was asked for."""
    claims = Claims(Clock())
    with claims.claim("card", "a"):
        claims.listed(1000.0)
        assert claims.of_others("b") == {"card": 1}


def test_a_failed_reservation_ends_its_claim() -> None:
    """Otherwise its card would be the last choice for ever."""
    claims = Claims(Clock())
    with pytest.raises(RuntimeError), claims.claim("card", "a"):
        raise RuntimeError
    claims.listed(101.0)
    assert claims.of_others("b") == {}
