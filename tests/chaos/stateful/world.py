"""What all examples share: a control plane without Cluster API's managers, and a cloud.

The objects of Cluster API are made by the tests themselves. Its managers would add nothing to what
is looked for here but time: an example would take some 15 s rather than some 5, and what they do
would depend on the moment. The provider's part in their contract is tested elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

from bench.install import install_alone
from capvco.services.cloud import Waits
from capvco.settings import Settings
from capvco.vco.settings import ClientSettings
from kubelocal import LocalCluster
from tests.support.simulator import Simulator

SETTLE = 1.5
"""Seconds for which a request may still take effect after its answer was lost. No fault of these
tests, and hardly a hiccup of a busy machine, delays one for longer."""

WAITS = Waits(poll=0.05, capacity=0.15, settle=SETTLE, resync=0.4)
CLIENT = ClientSettings(
    rate=1000.0,
    burst=1000,
    concurrency=16,
    read_seconds=1.0,
    write_seconds=1.0,
    create_seconds=0.6,
    read_tries=2,
)


@dataclass(frozen=True)
class World:
    """Where examples take place, one after the other, each in a namespace of its own."""

    cluster: LocalCluster
    simulator: Simulator
    kubeconfig: Path

    @classmethod
    def made(cls, cluster: LocalCluster, simulator: Simulator, folder: Path) -> "World":
        """Install the release; the manager gets its ServiceAccount's rights and no others."""
        install_alone(cluster)
        path = folder / "kubeconfig"
        cluster.service_account_kubeconfig("capvco-system", "capvco-manager", path)
        return cls(cluster, simulator, path)

    def settings(self, namespace: str) -> Settings:
        """Return the settings of a manager that works on one namespace."""
        return Settings(
            kubeconfig=self.kubeconfig,
            namespace=namespace,
            waits=WAITS,
            client=CLIENT,
            identity="stateful",
        )
