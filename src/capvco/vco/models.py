"""What the API says, as frozen structs; only the fields that somebody reads.

Names are the API's. Values that the API types differently from place to place are made one here:
numbers as text become numbers, ids become text or numbers as the name says, and an attachment to
nothing (null, `{}`, `{"id": null}`) becomes None.
"""

from msgspec.structs import force_setattr

from capvco.vco.envelopes import Loose, Model, Text, is_set

# Locations, images, networks


class LocationName(Model, frozen=True):
    """A location that the customer may use."""

    location: str


class Location(Model, frozen=True):
    """One location."""

    location: str
    storage_only: bool = False


class Image(Model, frozen=True):
    """A VM image in one location. `os_name` and `boot_type` are known of a single image only."""

    texts = ("tags",)

    image_id: int
    name: str
    status: str = ""
    description: str = ""
    os_type: str = ""
    os_name: str = ""
    boot_type: str = ""
    boot_disk_size: int = 0
    """Smallest boot disk, in GiB."""
    memory: int = 0
    """Least memory, in MiB."""
    size: int = 0
    tags: Text = ""
    public: bool = False


class ImageUpload(Model, frozen=True):
    """An upload in parts that has begun."""

    upload_id: str
    object_name: str
    part_size: int


class ExternalNetwork(Model, frozen=True):
    """A network of a location that cloudspaces can be connected to."""

    external_network_id: int
    name: str = ""
    network: str = ""
    gateway: str = ""
    subnet_mask: str = ""
    dhcp: bool = False
    public: bool = False


# Cloudspaces


class CloudspaceItem(Model, frozen=True):
    """A cloudspace, as the list shows it."""

    cloudspace_id: str
    name: str
    location: str
    status: str
    external_network_ip: str = ""
    private_network: str = ""
    deletion_time: Loose = 0

    @property
    def in_bin(self) -> bool:
        """Whether it is in the recycle bin."""
        return is_set(self.deletion_time)


class Cloudspace(Model, frozen=True):
    """One cloudspace."""

    texts = ("external_network_id",)

    cloudspace_id: str
    name: str
    status: str
    location: str = ""
    external_network_id: Text = ""
    """Number of the external network, as text; empty without one."""
    external_network_ip: str = ""
    private_network: str = ""
    local_domain: str = ""


class CloudspaceNetwork(Model, frozen=True):
    """An external network that a cloudspace is connected to."""

    texts = ("external_network_id",)

    external_network_id: Text
    """Number of a network, or id of a cloudspace, as text."""
    external_network_ip: str = ""
    """Address with its prefix length."""
    metric: int = 0
    type: str = ""

    @property
    def address(self) -> str:
        """The address without its prefix length."""
        return self.external_network_ip.partition("/")[0]


# VMs


class Device(Model, frozen=True):
    """Something passed into a VM, such as a vGPU."""

    texts = ("reference_id",)

    reference_id: Text = ""
    type: str = ""
    description: str = ""


class NetworkInterface(Model, frozen=True):
    """A network interface of a VM. The first one is the cloudspace's own network."""

    texts = ("network_id",)

    mac_address: str = ""
    ip_address: str = ""
    device_name: str = ""
    network_id: Text = ""
    nic_type: str = ""
    """INTERNAL for the cloudspace's own network; known of a single VM only."""

    @property
    def address(self) -> str:
        """The address without prefix length; empty while it has none."""
        bare = self.ip_address.partition("/")[0]
        return bare if "." in bare or ":" in bare else ""


class VMItem(Model, frozen=True):
    """A VM, as the list of a cloudspace shows it."""

    vm_id: int
    name: str
    status: str
    image_id: int | None = None
    vcpus: int = 0
    memory: int = 0
    creation_time: float = 0.0
    """Unix time."""
    deletion_time: Loose = 0
    network_interfaces: tuple[NetworkInterface, ...] = ()
    devices: tuple[Device, ...] = ()

    @property
    def in_bin(self) -> bool:
        """Whether it is in the recycle bin."""
        return is_set(self.deletion_time)


class Disk(Model, frozen=True):
    """A disk of a VM."""

    disk_id: int
    disk_name: str = ""
    disk_size: int = 0
    """In GiB."""
    disk_type: str = ""
    status: str = ""


class VM(Model, frozen=True):
    """One VM."""

    texts = ("cloudspace_id",)

    vm_id: int
    name: str
    status: str
    description: str = ""
    hostname: str = ""
    cloudspace_id: Text = ""
    vcpus: int = 0
    memory: int = 0
    """In MiB."""
    image_id: int | None = None
    boot_type: str = ""
    agent_status: str = ""
    locked: bool = False
    anti_affinity_group_ids: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    network_interfaces: tuple[NetworkInterface, ...] = ()
    devices: tuple[Device, ...] = ()


class VMID(Model, frozen=True):
    """Answer to the creation of a VM."""

    vm_id: int


class Note(Model, frozen=True):
    """A note on an object: the only free-form data there is."""

    texts = ("id",)

    id: Text
    title: str = ""
    content: str = ""


class AgentStatus(Model, frozen=True):
    """State of the agent inside a VM; RUNNING is the good one."""

    status: str


class Output(Model, frozen=True):
    """What came out of a VM: of a command, or a file's content in base64."""

    result: str


# Load balancers, port forwards, groups


class ID(Model, frozen=True):
    """Answer to the creation of a pool or a balancer."""

    texts = ("id",)

    id: Text


class PoolHost(Model, frozen=True):
    """A back end of a server pool."""

    texts = ("host_id",)

    host_id: Text
    address: str


class ServerPoolItem(Model, frozen=True):
    """A server pool, as the list shows it."""

    texts = ("serverpool_id",)

    serverpool_id: Text
    name: str
    locked: bool = False


class ServerPool(Model, frozen=True):
    """One server pool."""

    texts = ("serverpool_id",)

    serverpool_id: Text
    name: str
    description: str = ""
    locked: bool = False
    hosts: tuple[PoolHost, ...] = ()


class LoadBalancerItem(Model, frozen=True):
    """A load balancer, as the list shows it."""

    texts = ("loadbalancer_id",)

    loadbalancer_id: Text
    name: str
    serverpool_name: str = ""
    type: str = ""
    locked: bool = False


class FrontEnd(Model, frozen=True):
    """Where a load balancer listens; on every address if none is named."""

    port: int
    ip_address: str = ""


class BackEnd(Model, frozen=True):
    """Where a load balancer sends to."""

    texts = ("serverpool_id",)

    serverpool_id: Text
    target_port: int


class LoadBalancer(Model, frozen=True):
    """One layer-4 load balancer."""

    texts = ("loadbalancer_id",)

    loadbalancer_id: Text
    name: str
    front_end: FrontEnd
    back_end: BackEnd
    description: str = ""
    type: str = ""
    locked: bool = False


class PortForward(Model, frozen=True):
    """A port of a cloudspace's address that leads to a VM."""

    texts = ("portforward_id",)

    portforward_id: Text
    local_port: int
    public_port: int
    protocol: str = ""
    public_ip: str = ""
    local_ip: str = ""
    vm_id: int | None = None


class AffinityGroup(Model, frozen=True):
    """A group of VMs that are kept on different hosts."""

    group_id: str
    spread: int = -1
    status: str = ""


class GroupMember(Model, frozen=True):
    """A VM in an anti-affinity group."""

    vm_id: int
    status: str = ""


# GPUs


class GPUProfile(Model, frozen=True):
    """A kind of GPU, or one card, that a location offers."""

    texts = ("id",)

    id: Text
    vendor: str = ""
    model: str = ""
    description: str = ""
    available_instances: int = 0


class VMRef(Model, frozen=True):
    """The VM that a vGPU is attached to."""

    texts = ("cloudspace_id",)

    id: int | None = None
    name: str = ""
    cloudspace_id: Text = ""
    cloudspace_name: str = ""


class VGPU(Model, frozen=True):
    """A reservation of one instance of a GPU profile; costs money until deleted permanently."""

    texts = (
        "vgpu_id",
        "gpu_id",
    )

    vgpu_id: Text
    vgpu_name: str = ""
    gpu_id: Text = ""
    """Id of its profile."""
    description: str = ""
    status: str = ""
    """The platform's word; not documented, so decide by `virtual_machine` and `in_bin`."""
    virtual_machine: VMRef | None = None
    deletion_time: Loose = 0
    location: str = ""

    def __post_init__(self) -> None:
        """Take an attachment to nothing for none."""
        super().__post_init__()
        if self.virtual_machine is not None and not self.virtual_machine.id:
            force_setattr(self, "virtual_machine", None)

    @property
    def vm_id(self) -> int | None:
        """Id of the VM that it is attached to."""
        return None if self.virtual_machine is None else self.virtual_machine.id

    @property
    def in_bin(self) -> bool:
        """Whether it is in the recycle bin; it may still hold its card there."""
        return is_set(self.deletion_time)


class VGPUID(Model, frozen=True):
    """Answer to a reservation."""

    texts = ("vgpu_id",)

    vgpu_id: Text


class Pagination(Model, frozen=True):
    """Where a page is in its list."""

    count: int
    """Number of entries in the whole list."""
    limit: int = 0
    pages: int = 0


class VGPUPage(Model, frozen=True):
    """One page of the vGPUs of a location."""

    pagination: Pagination
    data: tuple[VGPU, ...]
