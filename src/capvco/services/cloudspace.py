"""The cloudspace of a cluster: use the one that is named, or make one and delete it again."""

from dataclasses import dataclass

import msgspec

from capvco.api.conditions import Reason
from capvco.api.v1beta1.cluster import CloudspaceSpec, Site
from capvco.services.cloud import Cloud, Save
from capvco.services.outcome import Pending, Terminal
from capvco.services.record import Record
from capvco.vco.errors import Conflict, Forbidden, NotFound, Refused, UnknownOutcome
from capvco.vco.models import Cloudspace, CloudspaceItem

DEPLOYED = "DEPLOYED"


@dataclass(frozen=True)
class Cloudspaces:
    """The cloudspace of one cluster at one site."""

    cloud: Cloud
    site: Site
    spec: CloudspaceSpec
    default_name: str

    @property
    def name(self) -> str:
        """Name of the cloudspace if CAPVCO makes it."""
        return self.spec.name or self.default_name

    async def ensure(self, record: Record, save: Save) -> tuple[Record, Cloudspace | Pending]:
        """Return the deployed cloudspace, made if the spec names none. Idempotent.

        Raises Terminal if what the spec names cannot be used.
        """
        if self.spec.id is not None:
            return record, await self._existing(self.spec.id)
        if record.cloudspace_id:
            return record, await self._existing(record.cloudspace_id)
        if record.cloudspace_at:
            record, found = await self._resolve(record, save)
            if found is not None:
                return record, found
        else:
            await self._preflight()
            await self._refuse_strangers()
        return await self._create(record, save)

    async def _existing(self, cloudspace_id: str) -> Cloudspace | Pending:
        try:
            found = await self.cloud.vco.cloudspaces.get(cloudspace_id)
        except NotFound as error:
            raise Terminal(
                Reason.CLOUDSPACE_UNAVAILABLE,
                f"the cloudspace {cloudspace_id} does not exist: {error}",
            ) from error
        if found.location != self.site.location:
            raise Terminal(
                Reason.CLOUDSPACE_UNAVAILABLE,
                f"the cloudspace {cloudspace_id} is in {found.location}, but the cluster's"
                f" location is {self.site.location}: they must be the same",
            )
        if found.status != DEPLOYED:
            return self._waiting(f"the cloudspace {found.name} is {found.status}")
        return found

    def _waiting(self, what: str, reason: Reason = Reason.CREATING_CLOUDSPACE) -> Pending:
        return Pending(reason, f"{what}; waiting for {DEPLOYED}", self.cloud.waits.poll)

    async def _named(self) -> list[CloudspaceItem]:
        listed = await self.cloud.vco.cloudspaces.list(locations=(self.site.location,))
        named = [c for c in listed if c.name == self.name and c.location == self.site.location]
        return sorted(named, key=lambda c: c.cloudspace_id)

    async def _resolve(
        self, record: Record, save: Save
    ) -> tuple[Record, Cloudspace | Pending | None]:
        """Find out what became of an attempt whose answer is not known."""
        if named := await self._named():
            record = msgspec.structs.replace(record, cloudspace_id=named[0].cloudspace_id)
            await save(record)
            return record, await self._existing(record.cloudspace_id)
        if self.cloud.clock() - record.cloudspace_at < self.cloud.waits.settle:
            what = f"the answer to the creation of the cloudspace {self.name} was lost"
            return record, self._waiting(what, Reason.WAITING_FOR_PLATFORM)
        return record, None

    async def _refuse_strangers(self) -> None:
        """Refuse a name that exists before we ever asked for it: it is not ours."""
        for item in await self._named():
            raise Terminal(
                Reason.CLOUDSPACE_UNAVAILABLE,
                f"a cloudspace named {self.name} exists already in {self.site.location}"
                f" ({item.cloudspace_id}) and is not this cluster's: give spec.cloudspace.id to"
                " use it, or another spec.cloudspace.name",
            )

    async def _preflight(self) -> None:
        """Check location and external network, so that the message can say what is possible."""
        location = self.site.location
        try:
            await self.cloud.vco.locations.get(location)
        except (NotFound, Forbidden):
            known = ", ".join(sorted(await self.cloud.vco.locations.list())) or "none"
            raise Terminal(
                Reason.LOCATION_UNKNOWN,
                f'the customer has no location "{location}"; available: {known}',
            ) from None
        networks = await self.cloud.vco.networks.list(location)
        if self.site.external_network_id not in {n.external_network_id for n in networks}:
            ids = ", ".join(f"{n.external_network_id} ({n.name})" for n in networks) or "none"
            raise Terminal(
                Reason.EXTERNAL_NETWORK_UNAVAILABLE,
                f"no external network has the id {self.site.external_network_id} in {location};"
                f" network ids belong to one location; available: {ids}",
            )

    async def _create(self, record: Record, save: Save) -> tuple[Record, Cloudspace | Pending]:
        record = msgspec.structs.replace(
            record,
            location=self.site.location,
            cloudspace_name=self.name,
            cloudspace_at=self.cloud.clock(),
        )
        await save(record)
        try:
            made = await self.cloud.vco.cloudspaces.create(
                name=self.name,
                location=self.site.location,
                external_network_id=self.site.external_network_id,
                private_network=self.spec.private_network,
            )
        except UnknownOutcome as error:
            # The call may have taken minutes, and what it asked for may go on.
            record = msgspec.structs.replace(record, cloudspace_at=self.cloud.clock())
            await save(record)
            return record, self._waiting(str(error), Reason.WAITING_FOR_PLATFORM)
        except Refused as error:
            raise Terminal(Reason.REFUSED_BY_PLATFORM, str(error)) from error
        record = msgspec.structs.replace(record, cloudspace_id=made)
        await save(record)
        return record, await self._existing(made)

    async def delete(self, record: Record) -> Pending | None:
        """Delete the cloudspace that CAPVCO made; None once a read proves it absent."""
        if self.spec.id is not None or not record.cloudspace_at:
            return None
        wanted = record.cloudspace_id or await self._late(record)
        if isinstance(wanted, Pending):
            return wanted
        if not wanted:
            return None
        try:
            await self.cloud.vco.cloudspaces.delete(wanted, permanently=True)
            status = (await self.cloud.vco.cloudspaces.get(wanted)).status
        except NotFound:
            return None
        except Conflict as error:
            return Pending(Reason.DELETING, str(error), self.cloud.waits.poll)
        message = f"waiting until the cloudspace {wanted} is gone (now {status})"
        return Pending(Reason.DELETING, message, self.cloud.waits.poll)

    async def _late(self, record: Record) -> str | Pending:
        """Look for the result of a create whose answer was lost."""
        if named := await self._named():
            return named[0].cloudspace_id
        if self.cloud.clock() - record.cloudspace_at < self.cloud.waits.settle:
            message = f"the creation of {record.cloudspace_name} may still take effect"
            return Pending(Reason.DELETING, message, self.cloud.waits.poll)
        return ""
