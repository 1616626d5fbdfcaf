"""The gate every call goes through: the log, and the faults on order."""

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vcosim.faults import ENDS_THE_CALL, Action
from vcosim.journal import Arrival, Visit
from vcosim.simulation import Simulation

if TYPE_CHECKING:
    import asyncio

TRANSPORT = "vcosim.transport"
PAGES = {
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Temporarily Unavailable",
    504: "Gateway Time-out",
}


class Circumstances(NamedTuple):
    """What a call meets on its way."""

    visit: Visit
    hidden: frozenset[str]
    patient: bool
    """Whether the answer waits for the end of the action it started."""


Inner = Callable[[Circumstances], Awaitable[Response]]


class BrokenConnection(Response):
    """No answer: the connection is torn down, after some bytes of an answer or before any."""

    def __init__(self, start: Response | None = None, keep: float = 0.0) -> None:
        super().__init__()
        self._start = start
        self._keep = keep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Break the connection and wait until the server has noticed."""
        transport: asyncio.Transport | None = scope.get("extensions", {}).get(TRANSPORT)
        if transport is None:
            raise ConnectionResetError("the simulator broke the connection on order")
        if self._start is None:
            transport.abort()
        else:
            await self._some(send)
            transport.close()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _some(self, send: Send) -> None:
        start = self._start or Response()
        kept = bytes(start.body)[: int(len(start.body) * self._keep)]
        await send(
            {
                "type": "http.response.start",
                "status": start.status_code,
                "headers": start.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": kept, "more_body": True})


class Gate:
    """Logs calls and applies faults around whatever answers them."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def serve(self, arrival: Arrival, inner: Inner) -> Response:
        """Answer a request, or break what is ordered to break."""
        simulation = self._simulation
        visit = simulation.journal.arrive(arrival, simulation.clock.now())
        actions = simulation.struck(visit)
        final = next((one for one in actions if one.kind in ENDS_THE_CALL), None)
        for action in actions:
            if action.kind == "slow" and not action.committed:
                await simulation.clock.until(simulation.clock.now() + action.seconds)
        status, response = await self._answered(visit, actions, final, inner)
        for action in actions:
            if action.kind == "slow" and action.committed:
                await simulation.clock.until(simulation.clock.now() + action.seconds)
        names = ",".join(action.kind for action in actions)
        simulation.journal.leave(visit, status, names, simulation.clock.now())
        return response

    async def _answered(
        self, visit: Visit, actions: list[Action], final: Action | None, inner: Inner
    ) -> tuple[int, Response]:
        """Return the status the cloud meant, and what the client gets."""
        if final and _beforehand(final):
            return 0, _broken(final, None)
        hidden = frozenset(one.location for one in actions if one.kind == "partial")
        patient = final is None or final.kind == "truncate"
        answer = await inner(Circumstances(visit, hidden, patient))
        return answer.status_code, _broken(final, answer) if final else answer


def _beforehand(action: Action) -> bool:
    return action.kind == "lose_before" or (action.kind == "status" and not action.committed)


def _broken(action: Action, answer: Response | None) -> Response:
    if action.kind == "status":
        return page(action.status, html=action.html, retry_after=action.retry_after)
    if action.kind == "truncate" and answer is not None:
        return _truncated(action, answer)
    return BrokenConnection()


def _truncated(action: Action, answer: Response) -> Response:
    if not action.clean:
        return BrokenConnection(answer, action.keep)
    kept = bytes(answer.body)[: int(len(answer.body) * action.keep)]
    return Response(kept, answer.status_code, media_type=answer.media_type)


def page(status: int, *, html: bool, retry_after: float | None = None) -> Response:
    """Return an error of something in front of the platform: a proxy's page, or bare JSON."""
    title = PAGES.get(status, "Error")
    headers = {} if retry_after is None else {"Retry-After": str(math.ceil(retry_after))}
    if not html:
        return Response(f'{{"message": "{title}"}}', status, headers, media_type="application/json")
    text = (
        f"<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>\r\n"
        f"<center><h1>{status} {title}</h1></center>\r\n<hr><center>nginx</center>\r\n"
        "</body>\r\n</html>\r\n"
    )
    return Response(text, status, headers, media_type="text/html")
