"""A VCO cloud as one customer sees it: all resource groups over one client."""

from typing import Self

from capvco.vco.affinity import AffinityGroups
from capvco.vco.client import Client
from capvco.vco.cloudspaces import Cloudspaces
from capvco.vco.credentials import Credentials
from capvco.vco.gpus import GPUs
from capvco.vco.images import Images
from capvco.vco.loadbalancers import LoadBalancers
from capvco.vco.locations import Locations
from capvco.vco.metrics import RequestMetrics
from capvco.vco.networks import Networks
from capvco.vco.settings import ClientSettings
from capvco.vco.token import Reload
from capvco.vco.vms import VMs


class VCO:
    """One per credential; may be used by many tasks at once. Close it after use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.locations = Locations(client)
        self.images = Images(client)
        self.networks = Networks(client)
        self.cloudspaces = Cloudspaces(client)
        self.vms = VMs(client)
        self.loadbalancers = LoadBalancers(client)
        self.affinity = AffinityGroups(client)
        self.gpus = GPUs(client)

    @classmethod
    def open(
        cls,
        credentials: Credentials,
        *,
        reload: Reload | None = None,
        settings: ClientSettings | None = None,
        metrics: RequestMetrics | None = None,
    ) -> Self:
        """Make ready to speak to a cloud; sends nothing yet.

        `reload` reads the Secret again, when the token is refused or ends.
        """
        return cls(Client.open(credentials, reload=reload, settings=settings, metrics=metrics))

    @property
    def credentials(self) -> Credentials:
        """The credentials in use."""
        return self._client.credentials

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._client.close()
