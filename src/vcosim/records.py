"""What the cloud is made of: one frozen record per kind of object."""

from typing import ClassVar

import msgspec


class Step(msgspec.Struct, frozen=True):
    """The action under way on an object: what it ends in, and when."""

    name: str
    due: float
    arg: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What all kinds share; the store indexes these fields."""

    kind: ClassVar[str]
    id: str
    location: str = ""
    parent: str = ""
    """What it belongs to: a customer, a cloudspace, another object's key."""
    name: str = ""
    link: str = ""
    """What it is tied to for the time being, e.g. a vGPU's VM."""
    status: str = ""
    created: float = 0.0
    updated: float = 0.0
    binned: float = 0.0
    """When it went to the recycle bin; 0 while it is not there."""
    step: Step | None = None


class Location(Record, frozen=True, kw_only=True):
    """A location with its data centre."""

    kind = "location"
    city: str = ""
    country: str = ""
    country_code: str = ""
    code: str = ""
    latitude: float = 0.0
    longitude: float = 0.0


class Customer(Record, frozen=True, kw_only=True):
    """A customer and the locations it may use."""

    kind = "customer"
    locations: tuple[str, ...] = ()
    account_id: int = 1


class Client(Record, frozen=True, kw_only=True):
    """Credentials: an API key (id and secret) of a user and the customers it reaches."""

    kind = "client"
    secret: str = ""
    customers: tuple[str, ...] = ()


class Image(Record, frozen=True, kw_only=True):
    """A VM image in one location; without a parent it is public."""

    kind = "image"
    description: str = ""
    os_type: str = "Linux"
    os_name: str = "Linux - other"
    boot_type: str = "bios"
    boot_disk_size: int = 10
    size: int = 2
    memory: int = 512
    tags: str = ""
    capabilities: dict[str, bool] = {}
    meneja_image_id: str = ""
    url: str = ""
    bytes: int = 0
    """How much was uploaded."""
    checksum: str = ""
    """Of an upload: md5 of the parts' md5s, and the number of parts, as object stores do it."""


class Upload(Record, frozen=True, kw_only=True):
    """An image upload in parts: part number → (etag, bytes)."""

    kind = "upload"
    object_name: str = ""
    parts: dict[str, tuple[str, int]] = {}


class ExternalNetwork(Record, frozen=True, kw_only=True):
    """A network of a location from which cloudspaces get addresses."""

    kind = "external-network"
    network: str = ""
    gateway: str = ""
    public: bool = True
    dhcp: bool = False


class Card(Record, frozen=True, kw_only=True):
    """A GPU profile: one physical card and how many vGPUs it can give."""

    kind = "card"
    vendor: str = ""
    model: str = ""
    description: str = ""
    capacity: int = 1


class Uplink(msgspec.Struct, frozen=True, kw_only=True):
    """A cloudspace's leg in an external network (or in its parent cloudspace)."""

    network_id: str
    address: str
    prefix: int
    metric: int
    type: str = "external"


class Cloudspace(Record, frozen=True, kw_only=True):
    """An isolated network with its gateway; parent is the customer."""

    kind = "cloudspace"
    number: int = 0
    private_network: str = ""
    local_domain: str = ""
    mode: str = "public"
    uplinks: tuple[Uplink, ...] = ()
    nested_in: str = ""
    quotas: dict[str, int] = {}


class Vm(Record, frozen=True, kw_only=True):
    """A virtual machine; parent is the cloudspace, link its address there."""

    kind = "vm"
    description: str = ""
    hostname: str = ""
    vcpus: int = 1
    memory: int = 512
    image_id: str = ""
    image_name: str = ""
    boot_type: str = "bios"
    disks: tuple[tuple[int, str, int], ...] = ()
    """(id, BOOT or DATA, GiB) in boot order."""
    mac_address: str = ""
    agent_enabled: bool = True
    running_since: float = 0.0
    login: str = "cloudscalers"
    password: str = ""
    userdata: dict[str, object] | None = None
    """What the body of the creation said."""
    userdata_text: str = ""
    """What the query of the creation said."""
    userdata_parameters: dict[str, object] = {}
    tpm: bool = False

    @property
    def ip_address(self) -> str:
        """The address in its cloudspace's own network."""
        return self.link


class Vgpu(Record, frozen=True, kw_only=True):
    """A reservation out of a card; parent is the customer, link the VM (or nothing)."""

    kind = "vgpu"
    gpu_id: str = ""
    binned_with_vm: bool = False


class Group(Record, frozen=True, kw_only=True):
    """An anti-affinity group of a cloudspace."""

    kind = "group"
    spread: int = -1
    members: tuple[int, ...] = ()


class ServerPool(Record, frozen=True, kw_only=True):
    """Back ends for load balancers: (host id, address)."""

    kind = "server-pool"
    description: str = ""
    locked: bool = False
    hosts: tuple[tuple[str, str], ...] = ()


class LoadBalancer(Record, frozen=True, kw_only=True):
    """A layer-4 load balancer; link is its server pool."""

    kind = "load-balancer"
    description: str = ""
    locked: bool = False
    type: str = "TCP"
    port: int = 0
    address: str = ""
    tls: dict[str, object] | None = None
    target_port: int = 0


class PortForward(Record, frozen=True, kw_only=True):
    """A forwarded port of a cloudspace; link is the VM (or the nested cloudspace)."""

    kind = "port-forward"
    protocol: str = "tcp"
    local_port: int = 0
    public_port: int = 0
    till_public_port: int | None = None
    public_ip: str = ""
    nested: bool = False


class Connection(Record, frozen=True, kw_only=True):
    """One side of a connection between two cloudspaces; link is the other side."""

    kind = "connection"
    local_address: str = ""
    remote_address: str = ""


class Note(Record, frozen=True, kw_only=True):
    """A note on a cloudspace or VM; parent is that object's key, name the title."""

    kind = "note"
    content: str = ""
    created_by: str = ""
    modified_by: str = ""


class GuestFile(Record, frozen=True, kw_only=True):
    """A file that the guest agent was asked to write; name is the path, content base64."""

    kind = "guest-file"
    content: str = ""


KINDS: dict[str, type[Record]] = {
    kind.kind: kind
    for kind in (
        Location, Customer, Client, Image, Upload, ExternalNetwork, Card, Cloudspace, Vm, Vgpu,
        Group, ServerPool, LoadBalancer, PortForward, Connection, Note, GuestFile,
    )
}  # fmt: skip
