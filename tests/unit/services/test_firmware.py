"""GPUs, firmware, and drivers for what is no GPU: said before it costs anything."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from capvco.api.conditions import Reason
from capvco.api.v1beta1.machine import BootType, GPURequest, VCOMachineSpec
from capvco.services.cloud import Cloud, Waits
from capvco.services.firmware import gpu_warning
from capvco.services.gpu_reservations import Reservations, Wanted
from capvco.services.inventory import Inventory
from capvco.services.outcome import Terminal
from capvco.services.record import Record
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from tests.support.builders import CLOUDSPACE, LOCATION, a_profile, a_record

STUB = a_profile("stub", vendor="Dummy", model="Dummy GPU 0000:f1:e1.0", free=4)
REAL = a_profile("real", vendor="NVIDIA", model="NVIDIA A100", free=4)


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    """A cloud that nothing here speaks to."""
    credentials = Credentials(api_url="https://vco.invalid/api/1", customer_id="c", jwt="x")
    async with VCO.open(credentials) as vco:
        yield Cloud(vco, Inventory(vco), Waits())


def reservations(cloud: Cloud, request: GPURequest) -> Reservations:
    async def save(record: Record) -> None:
        raise AssertionError(f"nothing is to be stored, least of all {record}")

    wanted = Wanted(
        machine="worker-1", location=LOCATION, cloudspace_id=CLOUDSPACE, request=request
    )
    return Reservations(cloud, wanted, save)


@pytest.mark.parametrize(
    "request_",
    [GPURequest(type="Dummy GPU"), GPURequest(profile_id="stub"), GPURequest(type="Dummy")],
)
def test_a_driver_for_a_placeholder_is_refused(cloud: Cloud, request_: GPURequest) -> None:
    """Whichever way a placeholder was chosen, a driver for it is refused before it is reserved."""
    asked = msgspec.structs.replace(request_, driver_version="570")
    with pytest.raises(Terminal) as caught:
        reservations(cloud, asked)._choose(a_record(), [STUB, REAL])
    assert caught.value.reason == Reason.DRIVER_FOR_STUB_PROFILE
    assert '"Dummy Dummy GPU" is a placeholder' in caught.value.message
    assert "leave it empty" in caught.value.message


def test_a_placeholder_without_a_driver_is_served(cloud: Cloud) -> None:
    """Attaching and releasing a placeholder works like with any card."""
    choice = reservations(cloud, GPURequest(type="Dummy"))._choose(a_record(), [STUB, REAL])
    assert choice.model.label == "Dummy Dummy GPU"


def test_a_driver_for_a_real_card_is_served(cloud: Cloud) -> None:
    """What is no placeholder is chosen as ever."""
    request = GPURequest(type="A100", driver_version="570")
    assert reservations(cloud, request)._choose(a_record(), [STUB, REAL]).cards[0].id == "real"


@pytest.mark.parametrize("boot_type", ["uefi", "uefi-secure-boot"])
def test_uefi_with_a_gpu_is_warned_of(boot_type: BootType) -> None:
    """The symptom and the way out, as a warning: some hosts do support it."""
    spec = VCOMachineSpec(image_id=1, boot_type=boot_type, gpu=GPURequest(type="A100"))
    assert gpu_warning(spec).startswith(f"bootType is {boot_type}: ")
    assert "use bios" in gpu_warning(spec)


def test_no_warning_otherwise() -> None:
    """Either alone is well."""
    assert gpu_warning(VCOMachineSpec(image_id=1, gpu=GPURequest(type="A100"))) == ""
    assert gpu_warning(VCOMachineSpec(image_id=1, boot_type="uefi")) == ""
