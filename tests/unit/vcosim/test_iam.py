"""Tokens: for a key, for an old token, and their end."""

import base64
import json
from typing import Any

import httpx2
import pytest

from tests.unit.vcosim.portal import C, Portal
from vcosim import tokens
from vcosim.records import Client

GRANT = {"grant_type": "client_credentials", "client_id": "demo", "response_type": "id_token"}


def key(portal: Portal) -> dict[str, str]:
    client = portal.simulation.store.get(Client, "", "demo")
    assert client is not None
    return GRANT | {"client_secret": client.secret}


def claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return decoded


async def use(portal: Portal, token: str) -> int:
    answer = await portal.http.get(f"{C}/locations", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


@pytest.mark.parametrize("place", ["params", "data"])
async def test_a_key_gives_a_token(portal: Portal, place: str) -> None:
    """In the query or as a form; the answer is the bare token, good for a day."""
    sent: dict[str, Any] = {place: key(portal)}
    answer = await portal.iam.post("/v1/oauth/access_token", **sent)
    assert answer.headers["Content-Type"] == "application/jwt"
    assert await use(portal, answer.text) == 200
    assert claims(answer.text)["exp"] - claims(answer.text)["iat"] == 86400


async def test_a_token_comes_as_json_on_request(portal: Portal) -> None:
    """With Accept: application/json the token is wrapped."""
    answer = await portal.iam.post(
        "/v1/oauth/access_token",
        data=key(portal) | {"validity": "600"},
        headers={"Accept": "application/json"},
    )
    assert await use(portal, answer.json()["access_token"]) == 200
    assert answer.json()["expires_in"] == 600


WRONG = [
    ({"client_secret": "guess"}, 401),
    ({"client_id": "nobody"}, 401),
    ({"grant_type": "password"}, 400),
    ({"validity": "long"}, 400),
]


@pytest.mark.parametrize(("changed", "status"), WRONG)
async def test_a_wrong_key_gives_nothing(
    portal: Portal, changed: dict[str, str], status: int
) -> None:
    """The refusal is plain text."""
    answer = await portal.iam.post("/v1/oauth/access_token", data=key(portal) | changed)
    assert answer.status_code == status


async def test_tokens_expire_and_may_be_shorter_but_not_longer(portal: Portal) -> None:
    """After its time a token is 401; validity can only shorten."""
    for validity, life in (("100", 100), ("999999", 86400)):
        data = key(portal) | {"validity": validity}
        token = (await portal.iam.post("/v1/oauth/access_token", data=data)).text
        portal.advance(life - 2)
        assert await use(portal, token) == 200
        portal.advance(3)
        assert await use(portal, token) == 401


async def refresh(portal: Portal, token: str) -> httpx2.Response:
    return await portal.iam.get(
        "/v1/oauth/jwt/refresh", headers={"Authorization": f"Bearer {token}"}
    )


async def test_an_expired_token_can_be_refreshed_if_issued_for_it(portal: Portal) -> None:
    """With scope offline_access; the new one is text and can be refreshed again."""
    data = key(portal) | {"scope": "offline_access", "validity": "60"}
    token = (await portal.iam.post("/v1/oauth/access_token", data=data)).text
    portal.advance(3600)
    assert await use(portal, token) == 401
    fresh = await refresh(portal, token)
    assert fresh.headers["Content-Type"].startswith("text/plain")
    assert await use(portal, fresh.text) == 200
    assert (await refresh(portal, fresh.text)).status_code == 200


async def test_other_tokens_cannot_unless_the_switch_allows(portal: Portal) -> None:
    """Without offline_access the refresh is refused; nonsense always."""
    token = (await portal.iam.post("/v1/oauth/access_token", data=key(portal))).text
    assert (await refresh(portal, token)).status_code == 400
    portal.simulation.set_switches({"refresh_needs_offline_access": False})
    assert (await refresh(portal, token)).status_code == 200
    assert (await refresh(portal, "a.b.c")).status_code == 401
    assert (await portal.iam.get("/v1/oauth")).status_code == 404


async def test_revoked_tokens_are_worth_nothing(portal: Portal) -> None:
    """Neither for use nor for refresh; the key still is."""
    token = portal.simulation.mint("demo", 600, offline=True)
    portal.simulation.revoke()
    assert await use(portal, token) == 401
    assert (await refresh(portal, token)).status_code == 401
    fresh = (await portal.iam.post("/v1/oauth/access_token", data=key(portal))).text
    assert await use(portal, fresh) == 200


def test_a_changed_token_is_no_token() -> None:
    """The signature covers the claims."""
    made = tokens.Claims(username="a", azp="a", exp=1.0, iat=0.0)
    token = tokens.minted(b"secret", made)
    assert tokens.read(b"secret", token) == made
    header, _, signature = token.split(".")
    forged = base64.urlsafe_b64encode(b'{"username":"b"}').decode().rstrip("=")
    for bad in (f"{header}.{forged}.{signature}", "", "x", token + "x"):
        with pytest.raises(tokens.BadTokenError):
            tokens.read(b"secret", bad)
    with pytest.raises(tokens.BadTokenError):
        tokens.read(b"other", token)
