"""The few fields that CAPVCO reads of objects that belong to others.

Shapes after Cluster API's v1beta2 contract and core Kubernetes.
"""

from msgspec import Struct, field

from capvco.api.meta import ObjectMeta

CLUSTER_GROUP = "cluster.x-k8s.io"
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
WATCH_FILTER_LABEL = "cluster.x-k8s.io/watch-filter"
PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/managed-by"
DELETE_FOR_MOVE_ANNOTATION = "clusterctl.cluster.x-k8s.io/delete-for-move"


class Reference(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reference to an object of the same namespace, by group and kind."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class Endpoint(Struct, frozen=True, omit_defaults=True):
    """Host and port of an API server."""

    host: str = ""
    port: int = 0


class ClusterSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What CAPVCO reads of Cluster.spec."""

    paused: bool = False
    infrastructure_ref: Reference | None = None
    control_plane_endpoint: Endpoint | None = None


class ClusterInitialization(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Progress of a Cluster; neither flag ever goes back to false."""

    infrastructure_provisioned: bool = False
    control_plane_initialized: bool = False


class ClusterStatus(Struct, frozen=True, omit_defaults=True):
    """What CAPVCO reads of Cluster.status."""

    initialization: ClusterInitialization = ClusterInitialization()


class Cluster(Struct, frozen=True, omit_defaults=True):
    """cluster.x-k8s.io Cluster."""

    metadata: ObjectMeta
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()


class Bootstrap(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the bootstrap data is."""

    data_secret_name: str | None = None


class MachineSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What CAPVCO reads of Machine.spec."""

    cluster_name: str = ""
    version: str = ""
    """The version of Kubernetes; empty where nobody has said it."""
    bootstrap: Bootstrap = Bootstrap()
    infrastructure_ref: Reference | None = None
    failure_domain: str = ""
    provider_id: str = field(default="", name="providerID")
    """Copied from the infrastructure machine once that was provisioned; survives a move."""


class Machine(Struct, frozen=True, omit_defaults=True):
    """cluster.x-k8s.io Machine."""

    metadata: ObjectMeta
    spec: MachineSpec = MachineSpec()

    @property
    def is_control_plane(self) -> bool:
        """Say whether the machine is a member of the control plane."""
        return CONTROL_PLANE_LABEL in self.metadata.labels


class NodeSpec(Struct, frozen=True, omit_defaults=True):
    """What CAPVCO reads of Node.spec."""

    provider_id: str = field(default="", name="providerID")


class NodeStatus(Struct, frozen=True, omit_defaults=True):
    """What CAPVCO reads of Node.status."""

    allocatable: dict[str, str] = field(default_factory=dict)


class Node(Struct, frozen=True, omit_defaults=True):
    """A core Node of a workload cluster."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Secret(Struct, frozen=True, omit_defaults=True):
    """A core Secret; msgspec decodes the base64 of the values."""

    metadata: ObjectMeta
    data: dict[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Never show the values."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"
