"""Firmware and GPUs: what is known to go wrong together."""

from capvco.api.v1beta1.machine import VCOMachineSpec


def gpu_warning(spec: VCOMachineSpec) -> str:
    """Say what a person should know of a GPU under this firmware; empty if nothing.

    A warning, since on hosts that support it UEFI maps the large windows of GPUs best.
    """
    if spec.gpu is None or spec.boot_type == "bios":
        return ""
    return (
        f"bootType is {spec.boot_type}: on some hosts a VM with a GPU and UEFI runs and never"
        ' boots (console: "Guest has not initialized the display"); if no node joins, use bios,'
        " with an image that is published for it"
    )
