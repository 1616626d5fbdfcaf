"""VCOMachineTemplate and VCOClusterTemplate: what pools and classes are made from."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from capvco.api.meta import ObjectMeta
from capvco.api.rules import Rule
from capvco.api.v1beta1.cluster import VCOClusterSpec
from capvco.api.v1beta1.machine import VCOMachineSpec

MetaMap = Annotated[dict[str, Annotated[str, Meta(max_length=262144)]], Meta(max_length=64)]
Quantity = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|[mk])?$")
]


class TemplateMeta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Labels and annotations of the objects made from a template."""

    labels: MetaMap = field(default_factory=dict)
    """Labels."""

    annotations: MetaMap = field(default_factory=dict)
    """Annotations."""


class VCOMachineTemplateResource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The VCOMachine to make."""

    __rules__: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.spec.providerID)",
            "providerID belongs to one machine: leave it out of a template, CAPVCO sets it on each"
            " VCOMachine",
            field=".spec.providerID",
        ),
    )

    metadata: TemplateMeta | None = None
    """Labels and annotations of the VCOMachine."""

    spec: VCOMachineSpec
    """Spec of the VCOMachine."""


class VCOMachineTemplateSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A template is immutable: make a new one and point the pool at it."""

    template: VCOMachineTemplateResource
    """The VCOMachine to make."""


class NodeInfo(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a node of this template will be."""

    architecture: Literal["amd64", "arm64", "s390x", "ppc64le"] | None = None
    """CPU architecture."""

    operating_system: Annotated[str, Meta(max_length=64)] = ""
    """Operating system."""


class VCOMachineTemplateStatus(
    Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True
):
    """What the cluster autoscaler needs to scale a pool from zero."""

    capacity: Annotated[dict[str, Quantity], Meta(max_length=32)] = field(default_factory=dict)
    """Resources of a node: cpu, memory, ephemeral-storage, nvidia.com/gpu, each a quantity."""

    node_info: NodeInfo | None = None
    """What a node of this template will be."""


class VCOMachineTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """VCOMachineTemplate is what the VCOMachines of a pool are made from."""

    metadata: ObjectMeta
    spec: VCOMachineTemplateSpec
    status: VCOMachineTemplateStatus = VCOMachineTemplateStatus()


class VCOClusterTemplateResource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The VCOCluster to make."""

    metadata: TemplateMeta | None = None
    """Labels and annotations of the VCOCluster."""

    spec: VCOClusterSpec
    """Spec of the VCOCluster."""


class VCOClusterTemplateSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A template is immutable: make a new one and point the class at it."""

    template: VCOClusterTemplateResource
    """The VCOCluster to make."""


class VCOClusterTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """VCOClusterTemplate is what the VCOClusters of a ClusterClass are made from."""

    metadata: ObjectMeta
    spec: VCOClusterTemplateSpec
