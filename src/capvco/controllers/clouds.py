"""Credentials Secrets to clouds: one client, one rate limit, one set of lists per account."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from capvco.api.conditions import Reason
from capvco.controllers.kinds import SECRET
from capvco.runtime.errors import NotFound
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube
from capvco.services.cloud import MAX_USER_DATA, Cloud, Waits
from capvco.services.inventory import Inventory
from capvco.services.outcome import Pending
from capvco.vco.cloud import VCO
from capvco.vco.credentials import BadCredentials, Credentials
from capvco.vco.metrics import RequestMetrics
from capvco.vco.settings import ClientSettings

_RECHECK = 30.0
"""Seconds after which a Secret is read again; a refusal by the platform reads it at once."""


@dataclass
class _Entry:
    credentials: Credentials
    checked: float


@dataclass
class Clouds:
    """The clouds in use, by the Secret that names them."""

    kube: Kube
    waits: Waits
    client: ClientSettings
    registry: CollectorRegistry
    refuse_choice: bool = False
    max_user_data: int = MAX_USER_DATA
    clock: Callable[[], float] = time.time
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _clouds: dict[Credentials, Cloud] = field(default_factory=dict)
    _metrics: RequestMetrics | None = None

    async def get(self, namespace: str, name: str) -> Cloud | Pending:
        """Return the cloud of a Secret; Pending says what the Secret lacks."""
        key = Key(namespace, name)
        entry = self._entries.get(key)
        if entry is None or self.clock() - entry.checked > _RECHECK:
            try:
                entry = _Entry(await self._read(key), self.clock())
            except NotFound:
                return self._invalid(key, "does not exist")
            except BadCredentials as error:
                return self._invalid(key, f"cannot be used: {error}")
            self._entries[key] = entry
            await self._drop_unused()
        return self._cloud(key, entry.credentials)

    async def _read(self, key: Key) -> Credentials:
        secret = await self.kube.get(SECRET, key.namespace, key.name)
        return Credentials.from_secret(secret.data)

    def _invalid(self, key: Key, what: str) -> Pending:
        message = f"the credentials Secret {key} {what}"
        return Pending(Reason.CREDENTIALS_INVALID, message, _RECHECK, failure=True)

    def _cloud(self, key: Key, credentials: Credentials) -> Cloud:
        if credentials not in self._clouds:
            if self._metrics is None:
                self._metrics = RequestMetrics(self.registry)
            vco = VCO.open(
                credentials,
                reload=lambda: self._read(key),
                settings=self.client,
                metrics=self._metrics,
            )
            inventory = Inventory(vco, self.clock)
            self._clouds[credentials] = Cloud(
                vco,
                inventory,
                self.waits,
                refuse_choice=self.refuse_choice,
                max_user_data=self.max_user_data,
                clock=self.clock,
            )
        return self._clouds[credentials]

    async def _drop_unused(self) -> None:
        used = {entry.credentials for entry in self._entries.values()}
        for credentials in [c for c in self._clouds if c not in used]:
            await self._clouds.pop(credentials).vco.close()

    async def close(self) -> None:
        """Close all clients."""
        self._entries.clear()
        await self._drop_unused()
