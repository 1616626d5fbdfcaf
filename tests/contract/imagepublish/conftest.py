"""A simulator that wants small parts, and the command in front of it."""

import hashlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from capvco.cli.imagepublish.command import execute
from capvco.cli.imagepublish.connection import World
from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.screen import Screen
from capvco.vco.settings import ClientSettings
from tests.support.disks import a_qcow2
from tests.support.simulator import Simulator, running_simulator
from vcosim.control import Action, Control, Match, When
from vcosim.faults import Kind
from vcosim.journal import Logged
from vcosim.stock import BE, WORLD

PART = 4096
LENGTH = 10_000
LONG = 600.0
NAME = "gpu-base"
START, ANY_PART, FINISH = "/upload-vm-image$", "/upload-part/", "/finish-image-upload$"
FAST = ClientSettings(rate=10_000, burst=10_000)
QUICK = Patience(tries=4, first_wait=0.01, longest_wait=0.05, poll=0.02, lag=0.3)


@dataclass
class Ran:
    """What a run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.out)
        return found

    @property
    def outcomes(self) -> dict[str, str]:
        return {one["location"]: one["outcome"] for one in self.json["results"]}

    @property
    def detail(self) -> str:
        (only,) = self.json["results"]
        return str(only["detail"])


@dataclass
class Desk:
    """A person's desk: credentials in the environment, an image, the command at hand."""

    simulator: Simulator
    folder: Path
    image: Path = field(init=False)

    def __post_init__(self) -> None:
        self.image = a_qcow2(self.folder / "image.qcow2", length=LENGTH)

    @property
    def control(self) -> Control:
        return self.simulator.control

    @property
    def environment(self) -> dict[str, str]:
        return {
            "VCO_API_URL": self.simulator.url,
            "VCO_CUSTOMER_ID": self.simulator.customer_id,
            "VCO_CLIENT_ID": self.simulator.client_id,
            "VCO_CLIENT_SECRET": self.simulator.client_secret,
            "VCO_IAM_URL": self.simulator.iam_url,
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def tokens(self, *more: str, locations: str = BE, timeout: str = "10s") -> Sequence[str]:
        what = ("-name", NAME, "-file", str(self.image), "-locations", locations)
        return (*what, "-o", "json", "-timeout", timeout, *more)

    def run(self, *tokens: str, environment: Mapping[str, str] | None = None) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        chosen = self.environment if environment is None else environment
        world = World(environment=chosen, patience=QUICK, client=FAST)
        code = execute(tokens, world, Screen(out, err))
        return Ran(int(code), out.getvalue(), err.getvalue())

    def publish(self, *more: str, locations: str = BE, timeout: str = "10s") -> Ran:
        """Publish the image."""
        return self.run(*self.tokens(*more, locations=locations, timeout=timeout))

    def images(self, name: str = NAME, location: str = BE) -> list[dict[str, Any]]:
        """Return what the cloud has under a name."""
        found = self.control.state().get("image", [])
        return [one for one in found if (one["name"], one["location"]) == (name, location)]

    def calls(self, route: str, location: str = BE) -> list[Logged]:
        """Return the calls of a kind, those that never arrived included."""
        found = self.control.calls(path=f"/customers/{self.simulator.customer_id}/loc")
        part = route.strip("$")
        return [one for one in found if part in one.path and f"/{location}/" in one.path]

    def fail(
        self,
        kind: Kind,
        route: str,
        when: When | None = None,
        **action: Any,  # noqa: ANN401 - any field of an action
    ) -> None:
        """Order a fault."""
        self.control.faults.add(Action(kind=kind, **action), Match(route=route), when)

    @contextmanager
    def meanwhile(self, route: str, count: int, act: Callable[[], object]) -> Iterator[None]:
        """Act in the moment in which so many calls of a kind have arrived."""

        def wait() -> None:
            self.arrived(route, count)
            act()

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def interrupt_at_part(self, number: int) -> None:
        """Let a run fail at a part: those before it are on the platform then."""
        broken = Match(path=f"/upload-part/{number}$")
        rule = self.control.faults.add(Action(kind="status", status=502), broken)
        assert self.publish().outcomes == {BE: "failed"}
        self.control.faults.remove(rule.id)

    def end_waits(self) -> None:
        """End what waits for a time that is long; whoever asked for it is gone."""
        self.control.clock.advance(LONG)

    def made(self) -> None:
        """Wait until there is an image."""
        self._poll(lambda: bool(self.images()), "was no image")

    def arrived(self, route: str, count: int) -> None:
        """Wait until so many calls of a kind have arrived."""
        self._poll(lambda: len(self.calls(route)) >= count, f"were not {count} calls of {route}")

    @staticmethod
    def _poll(true: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + 20
        while not true():
            if time.monotonic() > deadline:
                raise TimeoutError(f"there {otherwise}")
            time.sleep(0.01)

    @property
    def checksum(self) -> str:
        """The checksum that an object store gives the whole upload."""
        content = self.image.read_bytes()
        parts = [content[at : at + PART] for at in range(0, len(content), PART)]
        digests = b"".join(hashlib.md5(part).digest() for part in parts)
        return f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"

    def assert_published(self, location: str = BE) -> None:
        """There is one image of that name, with every byte of the file, and it is usable."""
        (only,) = self.images(location=location)
        assert (only["status"], only["bytes"]) == ("CREATED", self.image.stat().st_size)
        assert only["checksum"] == self.checksum


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Start a simulator for the whole session."""
    with running_simulator(tmp_path_factory.mktemp("imagepublish")) as running:
        yield running


@pytest.fixture
def desk(simulator: Simulator, tmp_path: Path) -> Iterator[Desk]:
    """Give a desk at a fresh cloud that wants parts of 4 KiB; nobody breaks its description."""
    control = simulator.control
    defaults = control.switches()
    control.reset(WORLD)
    control.set(upload_part_size=PART)
    yield Desk(simulator, tmp_path)
    breaches = control.breaches()
    control.set(**defaults)
    control.reset(WORLD)
    assert not breaches, breaches
