"""The simulator without sockets or time: calls in this process, a clock that stands still."""

from typing import Any

import httpx2

from vcosim import ledger, stock, world
from vcosim.api import Api
from vcosim.description import shipped
from vcosim.iam import Iam
from vcosim.simulation import Simulation
from vcosim.store import Store

BE = stock.BE
NL = stock.NL
C = f"/customers/{stock.CUSTOMER}"
L = f"{C}/locations/{BE}"


class Portal:
    """A person at the API: ``ok`` expects success, ``refused`` a status and tells the message."""

    def __init__(self, **switches: object) -> None:
        self.simulation = Simulation(Store(), "manual")
        self.simulation.set_switches({"replies": "early"} | switches)
        self.simulation.reset(world.named("stock"))
        token = self.simulation.mint(stock.CLIENT, 1e9, offline=True)
        self.http = _client(Api(self.simulation, shipped()), "/api/1", token)
        self.iam = _client(Iam(self.simulation), "", token)

    async def close(self) -> None:
        """Close the clients and the store; no answer may have been outside the description."""
        await self.http.aclose()
        await self.iam.aclose()
        breaches = self.simulation.journal.breaches()
        self.simulation.store.close()
        assert breaches == []

    async def ok(self, method: str, path: str, body: object = None, **query: Any) -> Any:  # noqa: ANN401 - JSON
        """Make a call that must succeed; return its body."""
        answer = await self.call(method, path, body, **query)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def refused(
        self,
        status: int,
        method: str,
        path: str,
        body: object = None,
        **query: Any,  # noqa: ANN401 - as the API takes them
    ) -> str:
        """Make a call that must be refused with a status; return the message."""
        answer = await self.call(method, path, body, **query)
        assert answer.status_code == status, answer.text
        return str(answer.json()["message"])

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        **query: Any,  # noqa: ANN401 - as the API takes them
    ) -> httpx2.Response:
        """Make a call."""
        texts = {
            name: str(one).lower() if isinstance(one, bool) else one for name, one in query.items()
        }
        sent: dict[str, Any] = {} if body is None else {"json": body}
        return await self.http.request(method, path, params=texts, **sent)

    def advance(self, seconds: float = 60.0) -> None:
        """Let time pass; by default enough for any action."""
        self.simulation.advance(seconds)

    def ledger(self) -> ledger.Ledger:
        """Return the ledger as of now."""
        cloud = self.simulation.settled()
        return ledger.read(cloud.store, cloud.now)

    def held(self) -> int:
        """Return how many reservations cost something now."""
        return self.ledger().totals.held

    async def cloudspace(self, name: str = "space", location: str = BE, **more: Any) -> str:  # noqa: ANN401 - body keys
        """Make a cloudspace and wait for it; return its path."""
        body = {"name": name, "location": location, "firewall": {"private": False}} | more
        made = await self.ok("POST", f"{C}/cloudspaces", body)
        self.advance()
        return f"{C}/cloudspaces/{made['cloudspace_id']}"

    async def vm(self, space: str, name: str = "vm", body: object = None, **more: Any) -> str:  # noqa: ANN401 - query
        """Make a halted VM and wait for it; return its path."""
        query = {
            "name": name,
            "description": "",
            "vcpus": 2,
            "memory": 2048,
            "image_id": 201,
            "disk_size": 20,
            "start_vm": False,
        } | more
        made = await self.ok("POST", f"{space}/vms", body, **query)
        self.advance()
        return f"{space}/vms/{made['vm_id']}"

    async def status(self, path: str) -> str:
        """Return the status of something that has a path."""
        return str((await self.ok("GET", path))["status"])

    async def gpus(self) -> list[str]:
        """Return the ids of the GPU profiles with room."""
        found = (await self.ok("GET", f"{L}/gpus"))["result"]
        return [one["id"] for one in found if one["available_instances"]]

    async def reserve(self, name: str = "gpu") -> str:
        """Reserve a vGPU on the first card with room; return its id."""
        gpu = (await self.gpus())[0]
        return str((await self.ok("POST", f"{L}/gpus/{gpu}", {"vgpu_name": name}))["vgpu_id"])

    async def vgpu(self, key: str) -> dict[str, Any]:
        """Return a vGPU from the list, which is the only way to see one."""
        listed = await self.ok("GET", f"{L}/vgpus", limit=0, include_deleted=True)
        return next(one for one in listed["data"] if one["vgpu_id"] == key)

    async def attached(self, vm: str, name: str = "gpu") -> str:
        """Reserve a vGPU, attach it to a halted VM and wait; return its id."""
        key = await self.reserve(name)
        await self.ok("POST", f"{vm}/vgpus/{key}")
        self.advance()
        return key


def _client(app: Any, base: str, token: str) -> httpx2.AsyncClient:  # noqa: ANN401 - an ASGI application
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app),
        base_url=f"http://vco.invalid{base}",
        headers={"Authorization": f"Bearer {token}"},
    )
