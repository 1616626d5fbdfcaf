"""Leader election by a Lease: at most one of several processes works at a time.

As client-go does it: a candidate trusts no clock but its own. It takes a lease over only when it
has itself seen it unchanged for the lease's duration, and a leader counts its time from before
each renewal was sent. The leader therefore gives up (``renew``) before anybody may take over
(``lease``), as long as clocks run at about the same speed.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime.errors import AlreadyExists, Conflict, KubeError, NotFound
from capvco.runtime.kinds import Kind, T
from capvco.runtime.metrics import Metrics
from capvco.runtime.wire import Meta, micro_now

log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

NAME = "controller-leader-election-capvco"


class LostLease(Exception):  # noqa: N818 - reads as the event it is
    """This process led and may no longer: it has to exit at once, without tidying up."""


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds a lease, and for how long without a renewal."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(msgspec.Struct, frozen=True):
    """A coordination.k8s.io/v1 Lease."""

    metadata: Meta
    spec: LeaseSpec = LeaseSpec()


LEASES = Kind("coordination.k8s.io", "v1", "Lease", "leases", Lease)


class Leases(Protocol):
    """What an election needs of a Kube."""

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        """Return a live object."""
        ...

    async def create(self, kind: Kind[T], namespace: str, body: Mapping[str, object]) -> T:
        """Create an object."""
        ...

    async def replace(self, kind: Kind[T], obj: T, body: Mapping[str, object]) -> T:
        """Replace the version that was read."""
        ...


@dataclass(frozen=True)
class Terms:
    """The times of an election in seconds; ``lease`` > ``renew`` > ``retry``."""

    lease: float = 15
    renew: float = 10
    retry: float = 2

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError(f"leader election needs lease > renew > retry > 0, not {self}")


class Elector:
    """A candidate: waits until it leads, leads, and hands over."""

    def __init__(  # noqa: PLR0913 - options, by name only
        self,
        kube: Leases,
        namespace: str,
        *,
        identity: str,
        name: str = NAME,
        terms: Terms = Terms(),
        registry: CollectorRegistry = REGISTRY,
        rng: random.Random | None = None,
    ) -> None:
        self.identity = identity
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._terms = terms
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._leading = Metrics.of(registry).leading.labels(name)
        self._leading.set(0)
        self._lease: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._problem = ""

    @property
    def holder(self) -> str:
        """Who held the lease when last seen; empty for nobody."""
        return self._lease.spec.holder_identity if self._lease else ""

    async def run(
        self,
        lead: Callable[[], Awaitable[None]],
        on_loss: Callable[[LostLease], None] | None = None,
    ) -> None:
        """Wait for the lease, then run ``lead`` to its end, then release the lease.

        Raises LostLease when the lease cannot be kept; ``on_loss`` is called before anything
        else happens then, so that a process can exit at once. A cancel ends ``lead`` first and
        releases afterwards.
        """
        await self._acquire()
        self._leading.set(1)
        log.info("leading", lease=self._name, identity=self.identity)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():
                await renewing
            await leading
        except LostLease as lost:
            self._leading.set(0)
            if on_loss is not None:
                on_loss(lost)
            raise
        finally:
            # Nothing that was led may outlive the lease.
            await _end(leading)
            kept = not renewing.done()
            await _end(renewing)
            self._leading.set(0)
            if kept:
                await self._release()

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110 - a lease can only be polled
            await asyncio.sleep(self._terms.retry * self._rng.uniform(1.0, 1.5))

    async def _try(self) -> bool:
        """Try once to become the leader."""
        try:
            async with asyncio.timeout(self._terms.renew / 2):
                self._see(await self._kube.get(LEASES, self._namespace, self._name))
                if self._is_held():
                    self._say(f"led by {self.holder}")
                    return False
                await self._renew()
        except NotFound:
            return await self._try_create()
        except Conflict:
            return False
        except (KubeError, TimeoutError) as error:
            self._say(f"{type(error).__name__}: {error}")
            return False
        return True

    async def _try_create(self) -> bool:
        sent_at = _now()
        body = {"metadata": {"name": self._name}, "spec": self._claim()}
        try:
            async with asyncio.timeout(self._terms.renew / 2):
                lease = await self._kube.create(LEASES, self._namespace, body)
        except AlreadyExists:
            return False
        except (KubeError, TimeoutError) as error:
            self._say(f"{type(error).__name__}: {error}")
            return False
        self._lease, self._renewed_at = lease, sent_at
        return True

    def _see(self, lease: Lease) -> None:
        """Note when a lease was first seen as it is."""
        before = self._lease
        changed = (
            before is None
            or before.metadata.uid != lease.metadata.uid
            or before.metadata.resource_version != lease.metadata.resource_version
        )
        if changed:
            self._lease, self._seen_at = lease, _now()

    def _is_held(self) -> bool:
        """Say whether somebody else may still be leading."""
        if self._lease is None or self.holder in {"", self.identity}:
            return False
        return _now() < self._seen_at + self._lease.spec.lease_duration_seconds

    async def _keep(self) -> None:
        """Renew until cancelled; raises LostLease."""
        pause = self._terms.retry
        while True:
            await asyncio.sleep(pause)
            pause = await self._try_renew()

    async def _try_renew(self) -> float:
        """Try once to renew, and return the pause before the next time; raises LostLease."""
        deadline = self._renewed_at + self._terms.renew
        pause = self._terms.retry
        # Half the deadline for one attempt, so that a dead connection leaves time for another.
        try:
            async with asyncio.timeout_at(min(deadline, _now() + self._terms.renew / 2)):
                await self._renew()
        except (Conflict, NotFound):
            await self._look(deadline)
            pause = 0
        except TimeoutError:
            self._say("not renewed: no answer in time")
            pause = 0
        except KubeError as error:
            self._say(f"not renewed: {type(error).__name__}: {error}")
        if _now() >= deadline:
            raise LostLease(f"lease {self._name} not renewed in {self._terms.renew:g} s")
        return min(pause, deadline - _now())

    async def _renew(self) -> None:
        """Write ourselves into the lease as last read; raises KubeError."""
        if self._lease is None:
            raise NotFound(404, "NotFound", f"lease {self._name} was never read")
        sent_at = _now()
        body = {"spec": self._claim()}
        self._lease = await self._kube.replace(LEASES, self._lease, body)
        self._renewed_at = self._seen_at = sent_at

    async def _look(self, deadline: float) -> None:
        """Read who leads after somebody else wrote; raises LostLease if it is not us."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                try:
                    self._see(await self._kube.get(LEASES, self._namespace, self._name))
                except NotFound:
                    raise LostLease(f"lease {self._name} was deleted") from None
                except KubeError as error:
                    self._say(f"not renewed: {type(error).__name__}: {error}")
        if self.holder != self.identity:
            raise LostLease(f"lease {self._name} is held by {self.holder or 'nobody'}")

    def _claim(self) -> LeaseSpec:
        before = self._lease.spec if self._lease else LeaseSpec()
        ours = before.holder_identity == self.identity
        now = micro_now()
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, round(self._terms.lease)),
            acquire_time=before.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=before.lease_transitions + (0 if ours or not self._lease else 1),
        )

    async def _release(self) -> None:
        """Hand the lease over, if it is still ours; never raises."""
        if self._lease is None:
            return
        spec = msgspec.structs.replace(self._claim(), holder_identity="", lease_duration_seconds=1)
        try:
            async with asyncio.timeout(self._terms.retry):
                await self._kube.replace(LEASES, self._lease, {"spec": spec})
            log.info("lease released", lease=self._name)
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released, it will run out", error=str(error))

    def _say(self, words: str) -> None:
        """Log news about the lease, once."""
        if words != self._problem:
            self._problem = words
            log.info("leader election", lease=self._name, state=words)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait for its end."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # retrieved: whoever waits for the task raises it


def _now() -> float:
    return asyncio.get_running_loop().time()
