"""The GPU step: driver, container toolkit and containerd's runtime before kubeadm runs."""

from msgspec import Struct

from capvco.bootstrap.document import Document
from capvco.bootstrap.step import Step, with_step

SCRIPTS = (
    *("boot.sh", "install.sh", "lib.sh", "gpu.sh"),
    *("preflight.sh", "driver.sh", "toolkit.sh", "containerd.sh", "verify.sh", "toml.awk"),
)


class Driver(Struct, frozen=True):
    """The driver that a machine's GPUs need."""

    version: str
    """A branch, such as 570, or with the open kernel modules, 580-open."""
    count: int
    """How many cards must be usable."""


def with_gpu_step(document: Document, driver: Driver) -> Document:
    """Install the driver before kubeadm runs. Raises UserDataError."""
    settings = {"CAPVCO_GPU_DRIVER": driver.version, "CAPVCO_GPU_COUNT": str(driver.count)}
    return with_step(
        document, Step(name="gpu", scripts=SCRIPTS, entry=("boot.sh",), settings=settings)
    )
