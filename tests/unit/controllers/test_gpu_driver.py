"""GPUDriverReady: what is read of a node, how often, and what is made of it."""

import asyncio
import base64
import json
from collections.abc import Callable

import httpx2
import pytest

from capvco.api.conditions import Reason
from capvco.api.meta import Proposed
from capvco.controllers.gpu_driver import DriverLooks, unknown
from capvco.runtime.kinds import Key
from capvco.services.cloud import Cloud, Waits
from capvco.services.inventory import Inventory
from capvco.vco.cloud import VCO
from tests.unit.vco.support import Handler, a_client, a_platform

KEY, OTHER, THIRD = Key("default", "a"), Key("default", "b"), Key("default", "c")
STARTED = 1000.0
OK = b"ok verify - branch=570 cards=1 bus=1\n"
FAILED = b"failed preflight BARUnassigned branch=- cards=0 bus=1: the image lacks pci=realloc\n"


def shows(content: bytes) -> httpx2.Response:
    """Return the answer of a VM agent that has the file."""
    body = {"result": base64.b64encode(content).decode()}
    return httpx2.Response(200, content=json.dumps(body).encode())


def looks(now: Callable[[], float] = lambda: 1000.0) -> DriverLooks:
    return DriverLooks(now, timeout=1.0)


async def look(handler: Handler, at: DriverLooks, machine: Key = KEY) -> Proposed:
    vco = VCO(a_client(handler))
    return await at.look(Cloud(vco, Inventory(vco), Waits()), machine, STARTED, "cs-1", 7)


async def test_ok() -> None:
    """A step that ended well is told with its numbers, and is asked of the VM's own agent."""
    platform = a_platform(shows(OK))
    told = await look(platform, looks())
    assert (told.status, told.reason) == ("True", Reason.READY)
    assert told.message == "1 card(s) usable, driver branch 570"
    (request,) = platform.seen
    assert request.url.path.endswith("/cloudspaces/cs-1/vms/7/file")
    assert request.url.params["filepath"] == "/var/lib/capvco/gpu.status"


async def test_failed() -> None:
    """A failure is told in the node's words, with the cure."""
    told = await look(a_platform(shows(FAILED)), looks())
    assert (told.status, told.reason) == ("False", Reason.GPU_DRIVER_FAILED)
    assert told.message == (
        "BARUnassigned at step preflight: the image lacks pci=realloc;"
        " on the node: /var/log/capvco-gpu.log"
    )


@pytest.mark.parametrize(
    "reply",
    [
        shows(b"something else"),
        httpx2.Response(400, content=b'{"message": "VM agent is not running"}'),
        httpx2.Response(404, content=b'{"message": "no such file"}'),
        httpx2.Response(403, content=b'{"message": "no"}'),
        httpx2.Response(200, content=b"<html>"),
        httpx2.ReadError("cut"),
    ],
)
async def test_no_result(reply: httpx2.Response | Exception) -> None:
    """No agent, no file, no answer: not known, and nothing is raised."""
    assert await look(a_platform(reply), looks()) == unknown()


async def test_an_agent_that_hangs() -> None:
    """It is not waited for."""

    async def never(request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError(request)

    at = DriverLooks(lambda: 1000.0, timeout=0.05)
    assert await look(never, at) == unknown()
    assert at.due(OTHER, 1000.0)


async def test_one_after_the_other() -> None:
    """A machine is left alone for a minute after a look; another one is another matter."""
    time = [1000.0]
    at = looks(lambda: time[0])
    await look(a_platform(shows(FAILED)), at)
    time[0] += 59.0
    assert not at.due(KEY, STARTED)
    assert at.due(OTHER, STARTED)
    time[0] += 1.0
    assert at.due(KEY, STARTED)


async def test_not_too_many_at_a_time() -> None:
    """While two looks are under way a third is put off, so that a pool keeps its rate."""
    go = asyncio.Event()
    arrived = asyncio.Semaphore(0)

    async def held(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "GET"
        arrived.release()
        await go.wait()
        return shows(OK)

    at = DriverLooks(lambda: 1000.0, timeout=30.0)
    tasks = [asyncio.create_task(look(held, at, machine)) for machine in (KEY, OTHER)]
    await arrived.acquire()
    await arrived.acquire()
    assert not at.due(THIRD, 1000.0)
    go.set()
    assert {told.status for told in await asyncio.gather(*tasks)} == {"True"}
    assert at.due(THIRD, 1000.0)
