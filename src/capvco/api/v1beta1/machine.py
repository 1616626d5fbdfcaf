"""VCOMachine: one virtual machine, with the GPUs that it asks for."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from capvco.api.meta import Condition, ObjectMeta
from capvco.api.rules import Rule, keyed_list, worded_pattern
from capvco.api.v1beta1.cluster import Initialization

BootType = Literal["bios", "uefi", "uefi-secure-boot"]
InstallKubernetes = Literal["IfMissing", "Never"]
AddressType = Literal["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]
GPUType = Annotated[
    str,
    worded_pattern(
        r"[A-Za-z0-9]",
        "a GPU type has letters or digits: it is a vendor, a model, or both, as the location"
        " reports them, such as NVIDIA A100",
        least=1,
        most=128,
    ),
]
DriverBranch = Annotated[
    str,
    worded_pattern(
        r"^([0-9]{3}(-open)?)?$",
        "driverVersion is a driver branch, three digits, such as 570, with -open for the open"
        " kernel modules, such as 580-open; or it is empty, for an image that has the driver",
        most=16,
    ),
]


class GPURequest(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A request for GPUs, by type or by exact profile."""

    __rules__: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.type) != has(self.profileId)",
            "set exactly one of gpu.type (a vendor, a model, or both, such as NVIDIA A100)"
            " and gpu.profileId (one exact card)",
        ),
    )

    type: GPUType | None = None
    """GPU type as the location reports it: vendor, model, or both, such as NVIDIA A100. Case,
    hyphens and blanks do not matter. Resolved in the machine's location when it is created."""

    profile_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """Id of one GPU profile: pins one exact card."""

    count: Annotated[int, Meta(ge=1, le=16)] = 1
    """How many vGPUs the machine gets, all of one model."""

    driver_version: DriverBranch = ""
    """Driver branch to install at first boot, such as 570 or 580-open. Empty for an image that has
    the driver, and for stub profiles."""


class VCOMachineSpec(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What one machine needs of a VCO cloud. Immutable, but for providerID being set once."""

    __rules__: ClassVar[tuple[Rule, ...]] = ()

    provider_id: Annotated[str, Meta(min_length=1, max_length=512)] | None = field(
        default=None, name="providerID"
    )
    """Identity of the machine for Kubernetes; set by CAPVCO before the VM is made."""

    image_id: Annotated[int, Meta(ge=1)] = field(name="imageID")
    """Id of the image, as the location numbers it."""

    vcpus: Annotated[int, Meta(ge=1, le=256)] = 2
    """Number of virtual CPUs."""

    memory_mib: Annotated[int, Meta(ge=512, le=4194304, multiple_of=2)] = field(
        default=4096, name="memoryMiB"
    )
    """Memory in MiB; the platform wants an even number."""

    disk_gib: Annotated[int, Meta(ge=1, le=16384)] = field(default=50, name="diskGiB")
    """Size of the boot disk in GiB; at least what the image needs."""

    boot_type: BootType = "bios"
    """Firmware; must be the image's. A VM with a GPU and uefi may never boot."""

    install_kubernetes: InstallKubernetes = "IfMissing"
    """Whether first boot installs kubeadm, kubelet and containerd, of the Machine's version, where
    the image has not all of them: IfMissing or Never. An image that has them is left as it is."""

    gpu: GPURequest | None = None
    """GPUs of the machine. Changing it in a template rolls the pool."""


class MachineAddress(Struct, frozen=True, kw_only=True):
    """An address of the machine."""

    type: AddressType
    """Kind of address."""

    address: Annotated[str, Meta(min_length=1, max_length=256)]
    """The address."""


class GPUStatus(Struct, frozen=True, rename="camel", kw_only=True):
    """One vGPU that this machine holds, and pays for."""

    vgpu_id: Annotated[str, Meta(max_length=128)]
    """Id of the reservation on the platform."""

    name: Annotated[str, Meta(max_length=253)]
    """Name of the reservation: capvco-<machine>-gpu-<n>."""

    profile_id: Annotated[str, Meta(max_length=128)]
    """Id of the profile, that is of the card."""

    model: Annotated[str, Meta(max_length=253)]
    """Vendor and model, without the card's PCI address."""

    attached: bool
    """Whether it is attached to this machine's VM."""


class VCOMachineStatus(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What was seen of the machine; all of it can be rebuilt from the cloud and the spec."""

    initialization: Initialization | None = None
    """Progress of the first provisioning."""

    phase: Annotated[str, Meta(max_length=64)] = ""
    """One word for people: Pending, Provisioning, Running, Failed, Deleting."""

    addresses: Annotated[tuple[MachineAddress, ...], Meta(max_length=256)] = ()
    """Addresses of the machine."""

    failure_domain: Annotated[str, Meta(max_length=256)] = ""
    """Name of the site that the machine lives in."""

    location: Annotated[str, Meta(max_length=63)] = ""
    """Location of the platform that the machine lives in."""

    cloudspace_id: Annotated[str, Meta(max_length=128)] = field(default="", name="cloudspaceID")
    """Id of the cloudspace that the VM lives in."""

    vm_id: Annotated[int, Meta(ge=0)] | None = field(default=None, name="vmID")
    """Id of the VM, as the location numbers it."""

    gpus: Annotated[tuple[GPUStatus, ...], keyed_list("vgpuId", most=64)] = ()
    """The vGPUs that this machine holds."""

    failure_reason: Annotated[str, Meta(max_length=256)] = ""
    """Reason of the last failure; empty again when its cause is gone."""

    failure_message: Annotated[str, Meta(max_length=32768)] = ""
    """The last failure in words; empty again when its cause is gone."""

    conditions: Annotated[tuple[Condition, ...], keyed_list("type", most=32)] = ()
    """Conditions of the machine."""


class VCOMachine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """VCOMachine is the virtual machine of one Machine on a VCO cloud."""

    metadata: ObjectMeta
    spec: VCOMachineSpec
    status: VCOMachineStatus = VCOMachineStatus()
