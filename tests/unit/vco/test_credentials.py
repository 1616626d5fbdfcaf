"""Credentials from a Secret: what is accepted, and what the refusal says."""

import pytest
import trustme

from capvco.vco.credentials import BadCredentials, Credentials

GOOD = {"apiURL": b"https://portal.test/api/1", "customerID": b"acme_1", "jwt": b"a.b.c"}
ROBOT = {
    "apiURL": b"https://portal.test",
    "customerID": b"acme_1",
    "clientID": b"robot",
    "clientSecret": b"hunter2",
    "iamURL": b"https://iam.test/",
}


@pytest.mark.parametrize(
    "url",
    [
        b"https://portal.test",
        b"https://portal.test/",
        b"https://portal.test/api/1",
        b"https://portal.test/api/1/\n",
    ],
)
def test_api_url_with_and_without_its_path(url: bytes) -> None:
    """The portal's address is enough; the API's full one is fine."""
    assert Credentials.from_secret(GOOD | {"apiURL": url}).api_url == "https://portal.test/api/1"


def test_client_id_credentials() -> None:
    """Client id and secret need the issuer's address."""
    credentials = Credentials.from_secret(ROBOT)
    assert (credentials.client_id, credentials.client_secret) == ("robot", "hunter2")
    assert credentials.iam_url == "https://iam.test"


def test_ca_bundle_is_checked() -> None:
    """A CA bundle in PEM form is taken, anything else is refused at once."""
    pem = trustme.CA().cert_pem.bytes()
    assert "BEGIN CERTIFICATE" in Credentials.from_secret(GOOD | {"caBundle": pem}).ca_bundle
    with pytest.raises(BadCredentials, match="caBundle"):
        Credentials.from_secret(GOOD | {"caBundle": b"not a certificate"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"apiURL": b""}, "apiURL missing or empty"),
        ({"apiURL": b"  \n", "customerID": b""}, "apiURL and customerID missing or empty"),
        ({"jwt": b""}, "jwt or clientID missing or empty"),
        ({"jwt": b"", "clientID": b"robot"}, "clientSecret and iamURL missing or empty"),
        ({"clientID": b"robot", "clientSecret": b"x"}, "both jwt and clientID"),
        ({"apiURL": b"portal.test"}, "apiURL must be a plain URL"),
        ({"apiURL": b"ftp://portal.test"}, "apiURL must be a plain URL"),
        ({"apiURL": b"https://robot:hunter2@portal.test"}, "apiURL must be a plain URL"),
        ({"apiURL": b"https://portal.test/?jwt=hunter2"}, "apiURL must be a plain URL"),
        ({"apiURL": b"https://portal.test:port"}, "apiURL must be a plain URL"),
        ({"iamURL": b"iam.test"}, "iamURL must be a plain URL"),
        ({"customerID": b"acme/../other"}, "customerID 'acme/../other'"),
        ({"jwt": b"hunter2 hunter2"}, "jwt holds blanks"),
        ({"jwt": b"hunter2\r\nX-Evil: 1"}, "jwt holds blanks"),
        ({"jwt": b"\xff\xfe"}, "jwt is not text"),
    ],
)
def test_bad_secret(changes: dict[str, bytes], words: str) -> None:
    """The refusal names what is wrong and what is possible, and repeats no secret."""
    with pytest.raises(BadCredentials) as refused:
        Credentials.from_secret(GOOD | changes)
    assert words in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_missing_keys_name_what_is_possible() -> None:
    """An empty Secret is answered by the list of keys."""
    with pytest.raises(BadCredentials, match="the Secret needs apiURL, customerID, and either jwt"):
        Credentials.from_secret({})


def test_secrets_are_not_shown() -> None:
    """Neither repr nor str nor an f-string shows a token or a secret."""
    for data, secret in ((GOOD, "a.b.c"), (ROBOT, "hunter2")):
        credentials = Credentials.from_secret(data)
        assert secret not in repr(credentials) + str(credentials) + f"{credentials} {[credentials]}"
        assert secret in credentials.secrets
