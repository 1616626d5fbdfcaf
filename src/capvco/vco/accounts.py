"""What a customer still holds and pays for, as structs: recycle bin and consumption."""

from capvco.vco.envelopes import Model, Text


class BinnedCloudspace(Model, frozen=True):
    """A cloudspace in the recycle bin."""

    cloudspace_id: str
    cloudspace_name: str = ""
    location: str = ""


class BinnedVM(Model, frozen=True):
    """A VM in the recycle bin."""

    texts = ("cloudspace_id",)

    vm_id: int
    vm_name: str = ""
    cloudspace_id: Text = ""
    location: str = ""


class BinnedVGPU(Model, frozen=True):
    """A vGPU in the recycle bin."""

    texts = (
        "vgpu_id",
        "gpu_id",
    )

    vgpu_id: Text
    vgpu_name: str = ""
    gpu_id: Text = ""
    location: str = ""


class RecycleBin(Model, frozen=True):
    """Everything that was deleted, but not permanently: names and cards may still be taken."""

    cloudspaces: tuple[BinnedCloudspace, ...] = ()
    vms: tuple[BinnedVM, ...] = ()
    vgpus: tuple[BinnedVGPU, ...] = ()


class Units(Model, frozen=True):
    """Consumed cloud units, in unit-hours as billed."""

    vgu: float = 0.0
    vcu: float = 0.0
    mu: float = 0.0
    su: float = 0.0


class VMConsumption(Model, frozen=True):
    """What one VM consumed."""

    vm_id: int
    name: str = ""
    consumption: Units = Units()


class CloudspaceConsumption(Model, frozen=True):
    """What one cloudspace consumed."""

    cloudspace_id: str
    name: str = ""
    consumption: Units = Units()
    vms: tuple[VMConsumption, ...] = ()


class VGPUConsumption(Model, frozen=True):
    """What a vGPU consumed while no VM had it."""

    texts = ("vgpu_id",)

    vgpu_id: Text
    consumption: Units = Units()


class LocationConsumption(Model, frozen=True):
    """What a customer consumed in one location."""

    consumption: Units
    name: str = ""
    cloudspaces: tuple[CloudspaceConsumption, ...] = ()
    unassigned_vgpus: tuple[VGPUConsumption, ...] = ()
