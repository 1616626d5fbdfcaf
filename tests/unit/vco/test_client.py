"""One client over a scripted platform: tries, tokens, pace, metrics, and silence about secrets."""

import asyncio
import logging
import traceback

import httpx2
import pytest
from prometheus_client import CollectorRegistry

from capvco.vco import errors as e
from capvco.vco.call import Call, Pace, read
from capvco.vco.client import Ack, Client
from capvco.vco.credentials import Credentials
from capvco.vco.images import Images, NewImage
from capvco.vco.metrics import RequestMetrics
from capvco.vco.settings import ClientSettings
from capvco.vco.vms import NewVM, VMs
from tests.unit.vco.support import (
    a_client,
    a_jwt,
    a_platform,
    client_id_credentials,
    html,
    json,
    some_credentials,
)

pytestmark = pytest.mark.looptime

READ = read("/customers/{customer_id}/things/{thing_id}", path={"thing_id": "x y"})
WRITE = Call(method="POST", route="/customers/{customer_id}/things")
CREATE = Call(method="POST", route="/customers/{customer_id}/things", pace=Pace.CREATE)
OK = json({"success": True})


def elapsed() -> float:
    return asyncio.get_running_loop().time()


async def test_request_as_sent() -> None:
    """Address, token, agent and body are as the API wants them."""
    platform = a_platform(OK)
    call = Call(method="PUT", route=READ.route, path=READ.path, query={"a": True}, body={"b": None})
    await a_client(platform).ack(call)
    request = platform.seen[0]
    assert str(request.url) == "https://portal.test/api/1/customers/acme_1/things/x%20y?a=true"
    assert request.headers["Authorization"] == f"Bearer {a_jwt()}"
    assert request.headers["User-Agent"].startswith("capvco/")
    assert request.headers["Content-Type"] == "application/json"
    assert request.content == b'{"b":null}'


@pytest.mark.parametrize(
    "trouble",
    [
        html(400, "400 Bad Request"),
        html(502),
        json({"message": "oops", "errorcode": "1"}, 500),
        html(200, "Maintenance"),
        httpx2.Response(200, content=b'{"success": tr'),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout(""),
        httpx2.RemoteProtocolError("peer closed connection"),
    ],
)
async def test_read_is_tried_again(trouble: httpx2.Response | Exception) -> None:
    """Passing trouble does not reach whoever reads."""
    platform = a_platform(trouble, trouble, OK)
    assert (await a_client(platform).send(READ, Ack)).success


async def test_read_is_given_up_after_three_tries() -> None:
    """Lasting trouble is told, soon."""
    platform = a_platform(html(503, "503 Service Unavailable"))
    begun = elapsed()
    with pytest.raises(e.Unreachable, match="503 Service Unavailable"):
        await a_client(platform).send(READ, Ack)
    assert len(platform.seen) == 3
    assert elapsed() - begun < 10


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (json({"message": "no"}, 400), e.Refused),
        (json({"message": "none"}, 404), e.NotFound),
        (json({"message": "no"}, 403), e.Forbidden),
        (json({"message": "slowly"}, 429), e.Throttled),
    ],
)
async def test_refused_read_is_not_repeated(reply: httpx2.Response, kind: type[e.VCOError]) -> None:
    """A no stays a no."""
    platform = a_platform(reply)
    with pytest.raises(kind):
        await a_client(platform).send(READ, Ack)
    assert len(platform.seen) == 1


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (httpx2.ConnectError("refused"), e.Unreachable),
        (httpx2.ConnectTimeout(""), e.Unreachable),
        (httpx2.PoolTimeout(""), e.Unreachable),
        (httpx2.ProxyError("no tunnel"), e.Unreachable),
        (httpx2.ReadTimeout(""), e.UnknownOutcome),
        (httpx2.WriteTimeout(""), e.UnknownOutcome),
        (httpx2.ReadError("reset"), e.UnknownOutcome),
        (httpx2.WriteError("broken pipe"), e.UnknownOutcome),
        (httpx2.RemoteProtocolError("disconnected"), e.UnknownOutcome),
        (httpx2.DecodingError("bad gzip"), e.UnknownOutcome),
        (html(504), e.UnknownOutcome),
        (html(200), e.UnknownOutcome),
        (json({}), e.UnknownOutcome),
        (json([]), e.UnknownOutcome),
        (json({"success": False}), e.UnknownOutcome),
        (httpx2.Response(200), e.UnknownOutcome),
        (json({"message": "taken"}, 409), e.Conflict),
    ],
)
async def test_mutation_is_sent_once(
    trouble: httpx2.Response | Exception, kind: type[e.VCOError]
) -> None:
    """Whatever happens, a mutation is not repeated, and the error tells what is known."""
    platform = a_platform(trouble, OK)
    with pytest.raises(e.VCOError) as failed:
        await a_client(platform).ack(WRITE)
    assert type(failed.value) is kind
    assert len(platform.seen) == 1


async def test_answer_that_is_not_described_may_be_anything_but_a_page() -> None:
    """Where no answer is described, an empty one is fine; a proxy's page is not."""
    for fine in (httpx2.Response(200), json("x"), json({"success": True}), httpx2.Response(204)):
        assert (await a_client(a_platform(fine)).do(WRITE)).ok
    with pytest.raises(e.UnknownOutcome, match="web page"):
        await a_client(a_platform(html(200, "Login"))).do(WRITE)


@pytest.mark.parametrize("call", [READ, WRITE])
async def test_refused_token_is_renewed_once(call: Call) -> None:
    """A 401 means that nothing happened: the call is sent again with a new token."""
    platform = a_platform(json({"message": "expired"}, 401), OK)

    async def reload() -> Credentials:
        return some_credentials(jwt=a_jwt("newer"))

    await a_client(platform, reload=reload).send(call, Ack)
    assert platform.tokens == [a_jwt(), a_jwt("newer")]


async def test_token_refused_twice() -> None:
    """Only one renewal per call; the error says what to do."""
    platform = a_platform(json({"message": "go away"}, 401))

    async def reload() -> Credentials:
        return some_credentials(jwt=a_jwt("newer"))

    with pytest.raises(e.Unauthorized, match=r"go away.*put valid credentials into the Secret"):
        await a_client(platform, reload=reload).ack(WRITE)
    assert len(platform.seen) == 2


async def test_call_sent_again_counts_twice() -> None:
    """The second sending after a 401 waits for its turn like any other request."""

    async def reload() -> Credentials:
        return some_credentials(jwt=a_jwt("newer"))

    settings = ClientSettings(rate=1, burst=1)
    client = a_client(a_platform(json({}, 401), OK), reload=reload, settings=settings)
    begun = elapsed()
    await client.ack(WRITE)
    assert elapsed() - begun == pytest.approx(1)


async def test_pause_stops_everybody() -> None:
    """After a 429 nobody sends before the time that it names."""
    platform = a_platform(json({}, 429, retry_after="5"), OK)
    client, begun = a_client(platform), elapsed()
    with pytest.raises(e.Throttled) as throttled:
        await client.ack(WRITE)
    assert throttled.value.retry_after == 5
    await client.ack(WRITE)
    assert elapsed() - begun == pytest.approx(5.25)


async def test_long_pause_is_told_without_sending() -> None:
    """Nobody waits for minutes inside a call; the error says how long it takes."""
    platform = a_platform(html(429), json({}, 429, retry_after="3600"), OK)
    client = a_client(platform)
    with pytest.raises(e.Throttled):
        await client.ack(WRITE)
    with pytest.raises(e.Throttled):
        await client.ack(WRITE)
    await asyncio.sleep(100)
    with pytest.raises(e.Throttled, match="not sent") as paused:
        await client.ack(WRITE)
    assert paused.value.nothing_happened
    assert paused.value.retry_after == pytest.approx(200)
    assert len(platform.seen) == 2
    await asyncio.sleep(200)
    await client.ack(WRITE)


class Crowd:
    """A platform that is slow, and counts how many requests are in it at once."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.now = 0
        self.most = 0

    async def __call__(self, _: httpx2.Request) -> httpx2.Response:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.now -= 1
        return json({"success": True})


async def test_concurrency_is_capped() -> None:
    """No more requests are in flight than allowed."""
    crowd = Crowd()
    client = a_client(crowd, settings=ClientSettings(rate=1000, burst=1000, concurrency=5))
    await asyncio.gather(*(client.send(READ, Ack) for _ in range(30)))
    assert crowd.most == 5


async def test_blocking_creates_leave_room_for_reads() -> None:
    """Creates that block for minutes do not keep anybody from reading."""
    crowd = Crowd(200)
    client = a_client(crowd, settings=ClientSettings(rate=1000, burst=1000, concurrency=5))
    creates = [asyncio.create_task(client.ack(CREATE)) for _ in range(10)]
    await asyncio.sleep(1)
    assert crowd.most == 3
    crowd.seconds, begun = 1, elapsed()
    await client.send(READ, Ack)
    assert elapsed() - begun == pytest.approx(1)
    await asyncio.gather(*creates)


@pytest.mark.parametrize(
    ("call", "seconds", "kind"),
    [(READ, 40, e.Unreachable), (WRITE, 130, e.UnknownOutcome), (CREATE, 310, e.UnknownOutcome)],
)
async def test_time_limits(call: Call, seconds: float, kind: type[e.VCOError]) -> None:
    """A call that never ends is given up: reads early, creates after minutes."""
    client, begun = a_client(Crowd(10**6)), elapsed()
    with pytest.raises(kind, match=f"no answer in {seconds} s"):
        await client.send(call, Ack)
    assert elapsed() - begun == pytest.approx(seconds)


async def test_cancelled_calls_give_back_their_slots() -> None:
    """Callers that are cancelled, waiting or in flight, leave the client as good as new."""
    crowd = Crowd(1000)
    client = a_client(crowd, settings=ClientSettings(rate=1000, burst=1000, concurrency=3))
    tasks = [asyncio.create_task(client.ack(c)) for c in (WRITE, CREATE, WRITE) * 4]
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    crowd.seconds, begun = 1, elapsed()
    await asyncio.gather(*(client.ack(WRITE) for _ in range(3)))
    assert elapsed() - begun == pytest.approx(1)


async def test_rate_is_limited() -> None:
    """Thirty reads at four a second after a burst of twenty take two and a half seconds."""
    client, begun = a_client(a_platform(OK)), elapsed()
    await asyncio.gather(*(client.send(READ, Ack) for _ in range(30)))
    assert elapsed() - begun == pytest.approx(2.5, abs=0.01)


def samples(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    return {
        (s.labels["method"], s.labels["endpoint"], s.labels["code"]): s.value
        for metric in registry.collect()
        for s in metric.samples
        if s.name == "capvco_vco_request_seconds_count"
    }


async def test_metrics_by_route_template() -> None:
    """Every request is counted by its template and code, without ids."""
    registry = CollectorRegistry()
    platform = a_platform(OK, html(502), httpx2.ConnectError(""), httpx2.ReadTimeout(""), OK)
    client = a_client(
        platform, metrics=RequestMetrics(registry), settings=ClientSettings(read_tries=1)
    )
    await client.ack(WRITE)
    for _ in range(3):
        with pytest.raises(e.Unreachable):
            await client.send(READ, Ack)
    await client.send(READ, Ack)
    assert samples(registry) == {
        ("POST", WRITE.route, "200"): 1,
        ("GET", READ.route, "502"): 1,
        ("GET", READ.route, "unsent"): 1,
        ("GET", READ.route, "timeout"): 1,
        ("GET", READ.route, "200"): 1,
    }


async def test_cancelled_and_lost_requests_are_counted() -> None:
    """Requests without an answer are counted, too."""
    registry = CollectorRegistry()
    client = a_client(Crowd(1000), metrics=RequestMetrics(registry))
    task = asyncio.create_task(client.ack(WRITE))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert samples(registry) == {("POST", WRITE.route, "cancelled"): 1}


USERDATA = {
    "write_files": [{"path": "/run/join.yaml", "content": "token: abcdef.0123456789abcdef\n"}],
    "users": [{"name": "admin", "passwd": "hunter2-hunter2"}],
}


@pytest.mark.parametrize("status", [200, 400, 401, 409, 429, 500])
async def test_no_secret_in_errors_or_logs(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """A platform that repeats everything it was sent does not make us repeat it."""

    async def parrot(request: httpx2.Request) -> httpx2.Response:
        heard = [
            request.headers.get("Authorization", ""),
            request.content.decode(),
            str(request.url),
        ]
        if request.url.host == "iam.test":
            return httpx2.Response(200, text=a_jwt("issued-secretly"))
        return httpx2.Response(status, json={"message": " ".join(heard), "secret": heard})

    vm = NewVM(
        name="vm-1",
        description="",
        vcpus=1,
        memory_mib=2048,
        disk_gib=20,
        image_id=1,
        userdata=USERDATA,
        user_data="password: hunter2-hunter2",
    )
    caplog.set_level(logging.DEBUG)
    client = a_client(parrot, credentials=client_id_credentials())
    with pytest.raises(e.VCOError) as failed:
        await VMs(client).create("cs", vm)
    shown = "".join(traceback.format_exception(failed.value)) + repr(failed.value)
    shown += str(vars(failed.value)) + caplog.text + repr(vm) + repr(client.credentials)
    for secret in (
        "hunter2-hunter2",
        "abcdef.0123456789abcdef",
        a_jwt("issued-secretly"),
        a_jwt("issued-secretly").split(".")[1],
        "s3cr3t-of-robot",
    ):
        assert secret not in shown


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_no_opaque_token_or_password_in_errors(status: int) -> None:
    """Also what does not look like a secret is kept back, if we know that it is one."""

    async def parrot(request: httpx2.Request) -> httpx2.Response:
        heard = f"{request.headers['Authorization']} {request.url.params}"
        if status == 200:
            return httpx2.Response(status, html=f"<title>{heard}</title>")
        return json({"message": heard}, status)

    image = NewImage(
        name="own",
        memory=512,
        boot_disk_size=10,
        boot_type="bios",
        password="hunter2-hunter2",
    )
    client = a_client(parrot, credentials=some_credentials(jwt="opaque-token"))
    with pytest.raises(e.VCOError) as failed:
        await Images(client).create_by_url("be-1", url="https://images.test/i", image=image)
    assert "images.test" in failed.value.words
    assert "opaque-token" not in str(failed.value)
    assert "hunter2" not in str(failed.value) + repr(image)


async def test_closing_twice() -> None:
    """A client may be closed twice; opening one sends nothing."""
    client = Client.open(some_credentials())
    await client.close()
    await client.close()


@pytest.mark.parametrize("bad", [{"rate": 0}, {"burst": 0}, {"concurrency": 0}])
def test_settings_that_cannot_work(bad: dict[str, int]) -> None:
    """Settings that would let nothing through are refused."""
    with pytest.raises(ValueError, match="at least 1"):
        ClientSettings(**bad)  # type: ignore[arg-type] # mypy cannot match names in a dict
