"""What a node of a template will offer."""

import pytest
from msgspec import convert, to_builtins

from capvco.api.v1beta1.machine import GPURequest
from capvco.api.v1beta1.templates import VCOMachineTemplateStatus
from capvco.controllers.template import capacity
from tests.support.builders import a_gpu_request, a_machine_spec


def test_without_gpus() -> None:
    """The autoscaler reads quantities, each a text."""
    spec = a_machine_spec(vcpus=4, memory_mib=8192, disk_gib=100)
    assert capacity(spec) == {"cpu": "4", "memory": "8192Mi", "ephemeral-storage": "100Gi"}


@pytest.mark.parametrize(
    "request_", [a_gpu_request(count=2), a_gpu_request(profile_id="card-1", count=2)]
)
def test_with_gpus(request_: GPURequest) -> None:
    """The resource is there however the GPUs are asked for: a pool scales from zero by it."""
    found = capacity(a_machine_spec(gpu=request_))
    assert found["nvidia.com/gpu"] == "2"
    assert set(found) == {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"}


def test_the_status_is_valid() -> None:
    """Every quantity passes the schema of the CRD."""
    status = VCOMachineTemplateStatus(capacity=capacity(a_machine_spec(gpu=a_gpu_request())))
    assert convert(to_builtins(status), VCOMachineTemplateStatus) == status
