"""The simulator on its three ports: the cloud, its IAM, and the control port."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from vcosim import stock
from vcosim.api import Api
from vcosim.clock import Mode
from vcosim.control_api import ControlApi
from vcosim.description import shipped
from vcosim.gate import TRANSPORT
from vcosim.iam import Iam
from vcosim.records import Client
from vcosim.simulation import Simulation
from vcosim.store import Store
from vcosim.world import World, named

KEEP_ALIVE = 75
LAST_WORDS = 2
LONGEST_URL = 256 * 1024


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a simulator; port 0 means any free one."""

    db: str = ":memory:"
    host: str = "127.0.0.1"
    port: int = 0
    control_port: int = 0
    iam_port: int = 0
    world: str | World = "stock"
    clock: Mode = "real"
    switches: dict[str, object] = {}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running simulator is and how to get in."""

    url: str
    iam_url: str
    control_url: str
    customer_id: str
    client_id: str
    client_secret: str
    token: str


class _Protocol(H11Protocol):
    """HTTP that hands its connection to the application, which may have to break it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn types it
        super().connection_made(transport)
        inner = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope.setdefault("extensions", {})[TRANSPORT] = transport
            await inner(scope, receive, send)

        self.app = with_transport


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Tick until the end, which is noticed at once."""
        ticking = asyncio.create_task(super().main_loop())
        await self._ending.wait()
        ticking.cancel()

    def end(self) -> None:
        """Stop serving."""
        self.should_exit = True
        self._ending.set()


class Running:
    """A simulator that serves until it is stopped."""

    def __init__(self, options: Options) -> None:
        self._store = Store(options.db)
        self.simulation = Simulation(self._store, options.clock)
        self.simulation.set_switches(options.switches)
        self._start_world(options)
        api = Api(self.simulation, shipped())
        apps: list[ASGIApp] = [
            api,
            Iam(self.simulation),
            ControlApi(self.simulation, api).app(),
        ]
        ports = (options.port, options.iam_port, options.control_port)
        self._sockets = [_bound(options.host, port) for port in ports]
        self._servers = [_server(app) for app in apps]
        self.address = self._address(options.host)

    def _start_world(self, options: Options) -> None:
        """Seed a new store; one that has a world keeps it."""
        if self._store.fact("world") is None:
            start = options.world
            self.simulation.reset(named(start) if isinstance(start, str) else start)
        self.simulation.settled()

    def _address(self, host: str) -> Address:
        shown = f"[{host}]" if ":" in host else host
        urls = [f"http://{shown}:{one.getsockname()[1]}" for one in self._sockets]
        self.simulation.iam_domain = urls[1].removeprefix("http://")
        clients = self._store.find(Client)
        client = next((one for one in clients if one.id == stock.CLIENT), None)
        client = client or (clients[0] if clients else Client(id=""))
        return Address(
            url=urls[0] + "/api/1",
            iam_url=urls[1],
            control_url=urls[2],
            customer_id=client.customers[0] if client.customers else "",
            client_id=client.id,
            client_secret=client.secret,
            token=self.simulation.mint(client.id, float("inf"), offline=True) if client.id else "",
        )

    async def serve(self) -> None:
        """Serve until ``stop``; closes ports and store on the way out."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for server, bound in zip(self._servers, self._sockets, strict=True):
                    tasks.create_task(server.serve([bound]))
        finally:
            for bound in self._sockets:
                bound.close()
            self._store.close()

    def stop(self) -> None:
        """End ``serve``: calls that wait are answered at once; callable within the loop only."""
        self.simulation.clock.stop()
        for server in self._servers:
            server.end()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on and each answer waits 40 ms for an ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno, f"cannot listen on {host} port {port}: {error.strerror}"
        ) from error
    bound.listen(256)
    return bound


def _server(app: ASGIApp) -> _Server:
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LAST_WORDS,
        h11_max_incomplete_event_size=LONGEST_URL,
    )
    return _Server(config)


class InThread:
    """A simulator in a thread of this process, for tests."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ready = threading.Event()
        self._running: Running | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="vcosim", daemon=True)

    def start(self) -> Address:
        """Start and return where it is; raises what kept it from starting."""
        self._thread.start()
        self._ready.wait()
        if self._running is None:
            raise RuntimeError("the simulator did not start") from self._failure
        return self._running.address

    def stop(self) -> None:
        """Stop and wait for the thread."""
        if self._loop and self._running and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._running.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that started this one
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        running = Running(self._options)
        self._running = running
        self._loop.call_soon(self._ready.set)
        await running.serve()


def database(path: Path) -> str:
    """Return the file name for a store, its folder made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)
