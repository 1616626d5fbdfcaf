"""VCOCluster: credentials, sites, cloudspace and control-plane endpoint of one cluster."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from capvco.api.meta import Condition, ObjectMeta
from capvco.api.rules import Rule, keyed_list, worded_pattern

_DNS_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Name = Annotated[
    str,
    worded_pattern(
        _DNS_NAME,
        "the name of a site has only lower-case letters, digits, hyphens and dots, such as be-g8-4",
        least=1,
        most=63,
    ),
]
SecretName = Annotated[
    str,
    worded_pattern(
        _DNS_NAME,
        "the name of a Secret has only lower-case letters, digits, hyphens and dots, such as"
        " vco-credentials",
        least=1,
        most=253,
    ),
]
Host = Annotated[
    str,
    worded_pattern(
        r"^[^/ ]+$",
        "host is a host name or an IP address alone, without scheme, port and path, such as"
        " api.example.org",
        least=1,
        most=512,
    ),
]
LocationName = Annotated[str, Meta(min_length=1, max_length=63)]
Cidr = Annotated[str, Meta(min_length=9, max_length=18)]


class IdentityRef(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The Secret that holds the credentials, in the namespace of the VCOCluster.

    Its keys: apiURL, customerID, and either jwt, or clientID with clientSecret and iamURL. Give it
    the label clusterctl.cluster.x-k8s.io/move so that it goes along with clusterctl move.
    """

    kind: Literal["Secret"] = "Secret"
    """Kind of the object; only Secret is supported."""

    name: SecretName
    """Name of the Secret."""


class Site(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place for machines, published as a failure domain under its name."""

    name: Name
    """Name of the site: what Machine.spec.failureDomain refers to."""

    location: LocationName
    """Location of the VCO platform."""

    external_network_id: Annotated[int, Meta(ge=1)] = field(name="externalNetworkID")
    """Id of the external network of the cloudspace, as this location numbers it."""

    image_id: Annotated[int, Meta(ge=1)] | None = field(default=None, name="imageID")
    """Image for machines of this site, in place of the machine template's: ids belong to one
    location."""


class CloudspaceSpec(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The cloudspace that the machines live in."""

    __rules__: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.id) && (has(self.name) || has(self.privateNetwork)))",
            "cloudspace.id names an existing cloudspace, whose name and privateNetwork are its own:"
            " set either id, or name and privateNetwork for one that CAPVCO makes and deletes",
        ),
        Rule(
            "!has(self.privateNetwork) || isCIDR(self.privateNetwork) &&"
            " cidr(self.privateNetwork).ip().family() == 4 &&"
            " cidr(self.privateNetwork).masked() == cidr(self.privateNetwork)",
            "privateNetwork is an IPv4 network, address and prefix length, such as"
            " 192.168.103.0/24",
            field=".privateNetwork",
        ),
    )

    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """Id of an existing cloudspace. CAPVCO uses it and never deletes it."""

    name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Name of the cloudspace that CAPVCO makes; capvco-<namespace>-<cluster> when left out."""

    private_network: Cidr | None = None
    """Private network of the cloudspace that CAPVCO makes; the platform's default when left out,
    mostly a /24. It has room for five VMs fewer than it has addresses, and never grows."""


class ControlPlaneEndpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the API server of the cluster is reached."""

    host: Host
    """Host name or IP address."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    """TCP port."""


class VCOClusterSpec(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a cluster needs of a VCO cloud."""

    __rules__: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.location) == has(self.externalNetworkID)",
            "location and externalNetworkID belong together: set both, or describe the site under"
            " sites instead",
        ),
        Rule(
            "has(self.location) != has(self.sites)",
            "say where the cluster lives: set location and externalNetworkID, or sites, not both",
        ),
        Rule(
            "!has(self.sites) || self.sites.size() <= 1",
            "this version of CAPVCO supports one site for each cluster: leave one of them, and make"
            " a cluster of its own for each other",
            field=".sites",
        ),
    )

    identity_ref: IdentityRef
    """The Secret with the credentials for the platform."""

    location: LocationName | None = None
    """Location of the VCO platform, for a cluster of one site. The failure domain has its name."""

    external_network_id: Annotated[int, Meta(ge=1)] | None = field(
        default=None, name="externalNetworkID"
    )
    """Id of the external network, as the location numbers it."""

    sites: Annotated[tuple[Site, ...], keyed_list("name", least=1, most=16)] | None = None
    """The sites of the cluster, each a failure domain. This version supports one."""

    cloudspace: CloudspaceSpec | None = None
    """The cloudspace. When left out, CAPVCO makes one and deletes it with the cluster."""

    control_plane_endpoint: ControlPlaneEndpoint | None = None
    """The endpoint of the API server. When left out, CAPVCO makes a load balancer on the
    cloudspace's external address, port 6443, and writes it here."""

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """The sites, however they were written."""
        if self.sites:
            return self.sites
        return (
            Site(
                name=self.location or "",
                location=self.location or "",
                external_network_id=self.external_network_id or 0,
            ),
        )


class Initialization(Struct, frozen=True, omit_defaults=True):
    """Progress of the first provisioning."""

    provisioned: bool | None = None
    """True once the infrastructure exists; never goes back."""


class FailureDomain(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A site, as Cluster API sees it."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    """Name of the site."""

    control_plane: bool | None = None
    """Whether control-plane machines may live here."""

    attributes: Annotated[dict[str, Annotated[str, Meta(max_length=512)]], Meta(max_length=16)] = (
        field(default_factory=dict)
    )
    """The location and the external network of the site."""


class SiteStatus(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What exists at a site."""

    name: Annotated[str, Meta(max_length=63)]
    """Name of the site."""

    cloudspace_id: Annotated[str, Meta(max_length=128)] | None = field(
        default=None, name="cloudspaceID"
    )
    """Id of the cloudspace."""

    external_ip: Annotated[str, Meta(max_length=64)] | None = field(default=None, name="externalIP")
    """External address of the cloudspace."""

    private_network: Annotated[str, Meta(max_length=64)] | None = None
    """Private network of the cloudspace. It has room for five VMs fewer than it has addresses."""


class LoadBalancerStatus(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What serves the control-plane endpoint."""

    server_pool_id: Annotated[str, Meta(max_length=128)] | None = field(
        default=None, name="serverPoolID"
    )
    """Id of the server pool with the control-plane machines."""

    load_balancer_id: Annotated[str, Meta(max_length=128)] | None = field(
        default=None, name="loadBalancerID"
    )
    """Id of the layer-4 load balancer."""


class VCOClusterStatus(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What was seen of the cluster's infrastructure; all of it can be found again."""

    initialization: Initialization | None = None
    """Progress of the first provisioning."""

    failure_domains: Annotated[tuple[FailureDomain, ...], keyed_list("name", most=100)] = ()
    """The sites, as Cluster API sees them."""

    sites: Annotated[tuple[SiteStatus, ...], keyed_list("name", most=100)] = ()
    """What exists at each site."""

    load_balancer: LoadBalancerStatus | None = None
    """What serves the control-plane endpoint."""

    conditions: Annotated[tuple[Condition, ...], keyed_list("type", most=32)] = ()
    """Conditions of the cluster's infrastructure."""


class VCOCluster(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """VCOCluster is the infrastructure of one Cluster on a VCO cloud."""

    metadata: ObjectMeta
    spec: VCOClusterSpec
    status: VCOClusterStatus = VCOClusterStatus()
