"""The client against the simulator when things go wrong: what is told, and what really happened."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from capvco.vco import errors as e
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.models import GPUProfile
from tests.contract.vco.conftest import FAST, Site
from vcosim.control import Action, Match, When
from vcosim.stock import BE, NL

RESERVE = Match(method="POST", route=r"/gpus/[{]gpu_id}$")
VGPUS = Match(method="GET", route=r"/vgpus$")
SPACES = Match(method="GET", route=r"/cloudspaces$")


async def a_card(site: Site) -> GPUProfile:
    return (await site.vco.gpus.profiles(BE))[0]


async def reserve(site: Site, name: str = "one") -> str:
    return await site.vco.gpus.reserve(BE, gpu_id=(await a_card(site)).id, name=name)


def reserve_attempts(site: Site) -> int:
    calls = site.control.calls(method="POST")
    return sum(call.route.endswith("/gpus/{gpu_id}") for call in calls)


@pytest.mark.parametrize(
    ("action", "happened"),
    [
        (Action(kind="lose_before"), 0),
        (Action(kind="lose_after"), 1),
        (Action(kind="truncate"), 1),
        (Action(kind="truncate", clean=True), 1),
        (Action(kind="status", status=500, html=False), 0),
        (Action(kind="status", status=502), 0),
        (Action(kind="status", status=502, committed=True), 1),
        (Action(kind="status", status=504, committed=True), 1),
        (Action(kind="status", status=400), 0),
        (Action(kind="status", status=404, committed=True), 1),
    ],
)
async def test_lost_answer_to_a_reservation(site: Site, action: Action, happened: int) -> None:
    """Whether it happened or not, the error says perhaps, and nothing is sent a second time."""
    site.control.faults.add(action, RESERVE, times=1)
    with pytest.raises(e.UnknownOutcome):
        await reserve(site)
    assert reserve_attempts(site) == 1
    assert len(await site.vco.gpus.vgpus(BE)) == happened == site.control.ledger().totals.held


@pytest.mark.parametrize(
    "action",
    [
        Action(kind="lose_before"),
        Action(kind="lose_after"),
        Action(kind="truncate"),
        Action(kind="truncate", clean=True),
        Action(kind="truncate", clean=True, keep=0),
        Action(kind="status", status=400),
        Action(kind="status", status=404),
        Action(kind="status", status=500, html=False),
        Action(kind="status", status=503),
    ],
)
async def test_reads_bear_passing_trouble(site: Site, action: Action) -> None:
    """A read that fails twice succeeds; one that always fails is an error and never empty."""
    id_ = await reserve(site)
    rule = site.control.faults.add(action, VGPUS, times=2)
    assert [v.vgpu_id for v in await site.vco.gpus.vgpus(BE)] == [id_]
    site.control.faults.remove(rule.id)
    site.control.faults.add(action, VGPUS)
    with pytest.raises((e.Unreachable, e.Malformed)):
        await site.vco.gpus.vgpus(BE)


@pytest.mark.parametrize("status", [400, 409, 503])
async def test_every_status_for_a_shortage(site: Site, status: int) -> None:
    """Whichever status the platform has for a shortage, it is recognised."""
    site.control.set(no_capacity_status=status)
    card = await a_card(site)
    await site.vco.gpus.reserve(BE, gpu_id=card.id, name="one")
    with pytest.raises(e.NoCapacity) as full:
        await site.vco.gpus.reserve(BE, gpu_id=card.id, name="two")
    assert full.value.status == status


@pytest.mark.parametrize("shape", ["null", "empty", "null-id"])
async def test_every_shape_of_an_unattached_vgpu(site: Site, shape: str) -> None:
    """However the platform says that no VM has it, it is understood."""
    site.control.set(unattached_vm=shape)
    await reserve(site)
    assert [v.virtual_machine for v in await site.vco.gpus.vgpus(BE)] == [None]


async def test_partial_list_names_the_location(site: Site) -> None:
    """A location that does not answer is named; lists of the other one are complete."""
    for location in (BE, NL):
        await site.vco.cloudspaces.create(name=location, location=location)
    site.control.faults.add(Action(kind="partial", location=NL), SPACES)
    with pytest.raises(e.PartialList) as partial:
        await site.vco.cloudspaces.list()
    assert partial.value.failed == (NL,)
    assert [c.location for c in partial.value.readable] == [BE]
    assert [c.location for c in await site.vco.cloudspaces.list(locations=[BE])] == [BE]
    with pytest.raises(e.PartialList):
        await site.vco.cloudspaces.list(locations=[NL])


def many_cards(count: int) -> dict[str, object]:
    return {
        "locations": [
            {
                "name": BE,
                "cards": [{"vendor": "N", "model": "X", "id": "card", "capacity": count}],
            }
        ],
        "customers": [{"customer_id": "demo_1", "name": "Demo", "locations": [BE]}],
        "clients": [{"client_id": "demo", "customers": ["demo_1"]}],
    }


@pytest.mark.parametrize("cap", [0, 2, 7, 25])
async def test_list_longer_than_a_page(site: Site, cap: int) -> None:
    """All reservations are listed, whatever the server's largest page is."""
    site.control.reset(many_cards(60))
    made = [await site.vco.gpus.reserve(BE, gpu_id="card", name=f"g-{i}") for i in range(60)]
    site.control.set(page_cap=cap)
    assert sorted(v.vgpu_id for v in await site.vco.gpus.vgpus(BE)) == sorted(made)


async def test_list_that_changes_while_it_is_read(site: Site) -> None:
    """Reservations that are there all the time are never missing from a list that is accepted."""
    site.control.reset(many_cards(60))
    stay = [await site.vco.gpus.reserve(BE, gpu_id="card", name=f"s-{i}") for i in range(30)]
    site.control.set(page_cap=5)
    done = asyncio.Event()

    async def churn() -> None:
        for i in range(12):
            id_ = await site.vco.gpus.reserve(BE, gpu_id="card", name=f"c-{i}")
            await site.vco.gpus.release(BE, id_)
        done.set()

    async def watch() -> int:
        accepted = 0
        while not done.is_set():
            try:
                found = {v.vgpu_id for v in await site.vco.gpus.vgpus(BE)}
            except e.Inconsistent:
                continue
            assert set(stay) <= found
            accepted += 1
        return accepted

    await asyncio.gather(churn(), watch())
    assert {v.vgpu_id for v in await site.vco.gpus.vgpus(BE)} == set(stay)


async def test_throttled_by_a_proxy(site: Site) -> None:
    """A 429 tells how long to wait, nothing happened, and meanwhile nobody sends anything."""
    card = await a_card(site)
    site.control.faults.add(Action(kind="status", status=429, retry_after=60), RESERVE, times=1)
    with pytest.raises(e.Throttled) as throttled:
        await site.vco.gpus.reserve(BE, gpu_id=card.id, name="one")
    assert throttled.value.retry_after == 60
    sent = len(site.control.calls())
    for _ in range(3):
        with pytest.raises(e.Throttled, match="not sent"):
            await site.vco.gpus.vgpus(BE)
    assert len(site.control.calls()) == sent
    assert site.control.ledger().totals.made == 0


async def test_short_throttling_by_the_platform(site: Site) -> None:
    """The platform's own limit is a pause that the next calls wait out."""
    site.control.set(requests_per_second=5)
    throttled = 0
    for _ in range(12):
        try:
            await site.vco.locations.list()
        except e.Throttled:
            throttled += 1
    assert throttled
    assert await site.vco.locations.list()


async def test_ready_token_without_and_with_an_issuer(site: Site) -> None:
    """A ready token works; one that has ended is renewed where the issuer is known."""
    token = site.control.token("demo")
    keyless = {"clientID": "", "clientSecret": ""}
    async with VCO.open(site.credentials(**keyless, iamURL="", jwt=token), settings=FAST) as vco:
        assert await vco.locations.list()
    ended = site.control.token("demo", seconds=1)
    site.control.clock.advance(2)
    async with VCO.open(site.credentials(**keyless, jwt=ended), settings=FAST) as vco:
        assert await vco.locations.list()
    rigid = site.control.token("demo", seconds=1, offline=False)
    site.control.clock.advance(2)
    async with VCO.open(site.credentials(**keyless, jwt=rigid), settings=FAST) as vco:
        with pytest.raises(e.Unauthorized, match="offline_access"):
            await vco.locations.list()


@pytest.mark.parametrize(
    "act",
    [
        lambda site: site.vco.locations.list(),
        lambda site: site.vco.cloudspaces.create(name="space", location=BE),
    ],
)
async def test_revoked_token(site: Site, act: Callable[[Site], Awaitable[object]]) -> None:
    """A token that is revoked in the middle is replaced, for reads and mutations, by one call."""
    await site.vco.locations.list()
    site.control.revoke_tokens()
    await act(site)
    calls = [c for c in site.control.calls() if "oauth" in c.path]
    assert len(calls) == 2


async def test_wrong_client_secret(site: Site) -> None:
    """Wrong credentials are an error that names the issuer's words and what to do."""
    wrong = site.credentials(clientSecret="hunter2-hunter2")
    async with VCO.open(wrong, settings=FAST) as vco:
        with pytest.raises(e.Unauthorized, match="client_id or client_secret is wrong") as refused:
            await vco.locations.list()
    assert "hunter2" not in str(refused.value)


async def test_secret_that_is_corrected_in_use(site: Site) -> None:
    """A corrected Secret is picked up by the client that was opened with the wrong one."""

    async def reload() -> Credentials:
        return site.credentials()

    wrong = site.credentials(clientSecret="wrong")
    async with VCO.open(wrong, reload=reload, settings=FAST) as vco:
        with pytest.raises(e.Unauthorized):
            await vco.locations.list()
        assert await vco.locations.list()


async def test_another_customer(site: Site) -> None:
    """Another customer's objects are forbidden, not absent."""
    async with VCO.open(site.credentials(customerID="other_2"), settings=FAST) as vco:
        with pytest.raises(e.Forbidden):
            await vco.gpus.vgpus(BE)


async def test_one_token_for_many_calls(site: Site) -> None:
    """Calls that begin at once share one token."""
    await asyncio.gather(*(site.vco.gpus.profiles(BE) for _ in range(20)))
    assert len([c for c in site.control.calls() if "oauth" in c.path]) == 1


async def test_failing_issuer(site: Site) -> None:
    """An issuer that is down is an error that nothing came of, and only for that moment."""
    rule = site.control.faults.add(
        Action(kind="status", status=502), Match(path="/v1/oauth"), When(nth=1)
    )
    with pytest.raises(e.Unreachable) as failed:
        await site.vco.cloudspaces.create(name="space", location=BE)
    assert failed.value.route == "/v1/oauth/access_token"
    site.control.faults.remove(rule.id)
    assert await site.vco.locations.list()
