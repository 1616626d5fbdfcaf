"""Credentials from flags and environment."""

from pathlib import Path

import pytest
import trustme

from capvco.cli.access import Given, credentials
from capvco.cli.unusable import Unusable

BASE = {"VCO_API_URL": "https://portal.example/api/1", "VCO_CUSTOMER_ID": "acme_1"}
KEY = {
    "VCO_CLIENT_ID": "key",
    "VCO_CLIENT_SECRET": "hush",
    "VCO_IAM_URL": "https://iam.example",
}


def test_the_environment_is_enough() -> None:
    """By token, or by API key."""
    by_token = credentials(Given(), BASE | {"VCO_JWT": "a.b.c"})
    by_key = credentials(Given(), BASE | KEY)
    assert (by_token.api_url, by_token.customer_id, by_token.jwt) == (
        "https://portal.example/api/1",
        "acme_1",
        "a.b.c",
    )
    assert (by_key.client_id, by_key.client_secret, by_key.iam_url) == (
        "key",
        "hush",
        "https://iam.example",
    )


def test_flags_win_and_one_way_in_replaces_the_other() -> None:
    """Halves of two accounts are never mixed."""
    assert credentials(Given(customer_id="other_2"), BASE | KEY).customer_id == "other_2"
    by_token = credentials(Given(jwt="a.b.c"), BASE | KEY)
    assert (by_token.jwt, by_token.client_id) == ("a.b.c", "")
    by_key = credentials(Given(client_id="mine"), BASE | KEY | {"VCO_JWT": "a.b.c"})
    assert (by_key.jwt, by_key.client_id, by_key.client_secret) == ("", "mine", "hush")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "no VCO_API_URL and no VCO_CUSTOMER_ID"),
        (BASE, "no VCO_JWT and no VCO_CLIENT_ID"),
        (BASE | KEY | {"VCO_JWT": "a.b.c"}, "both jwt and clientID"),
        (BASE | {"VCO_CLIENT_ID": "key"}, "clientSecret is VCO_CLIENT_SECRET"),
        (BASE | {"VCO_JWT": "a.b.c", "VCO_CA_BUNDLE": "/nowhere"}, "/nowhere"),
    ],
)
def test_what_is_missing_is_named(environment: dict[str, str], said: str) -> None:
    """With the variable to set."""
    with pytest.raises(Unusable, match=said) as caught:
        credentials(Given(), environment)
    assert "hush" not in str(caught.value)


def test_a_ca_bundle_is_a_file(tmp_path: Path) -> None:
    """By flag or by variable."""
    pem = trustme.CA().cert_pem.bytes().decode()
    (tmp_path / "ca.pem").write_text(pem)
    found = credentials(Given(ca_bundle=tmp_path / "ca.pem"), BASE | {"VCO_JWT": "a.b.c"})
    assert found.ca_bundle.strip() == pem.strip()


def test_secrets_stay_out_of_the_repr() -> None:
    """Whatever prints the flags, for whatever reason."""
    given = Given(jwt="hush", client_secret="hush")
    assert "hush" not in repr(given)
    assert given.shows_secrets
    assert not Given(customer_id="a").shows_secrets
