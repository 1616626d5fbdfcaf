"""VCOMachineTemplate: what a node will offer, so that a pool can be scaled from zero."""

from dataclasses import dataclass

import msgspec

from capvco.api.v1beta1.machine import VCOMachineSpec
from capvco.api.v1beta1.templates import NodeInfo, VCOMachineTemplate, VCOMachineTemplateStatus
from capvco.controllers.kinds import VCO_MACHINE_TEMPLATE
from capvco.runtime.cache import Cache
from capvco.runtime.controller import Result
from capvco.runtime.errors import Gone
from capvco.runtime.kinds import Key
from capvco.runtime.kube import Kube

GPU_RESOURCE = "nvidia.com/gpu"


def capacity(spec: VCOMachineSpec) -> dict[str, str]:
    """Return the resources of a node, every quantity a string: a number would void them all."""
    found = {
        "cpu": str(spec.vcpus),
        "memory": f"{spec.memory_mib}Mi",
        "ephemeral-storage": f"{spec.disk_gib}Gi",
    }
    if spec.gpu is not None:
        found[GPU_RESOURCE] = str(spec.gpu.count)
    return found


@dataclass(frozen=True)
class TemplateReconciler:
    """Reconciles VCOMachineTemplates; from their spec alone, so it needs no credentials."""

    kube: Kube
    templates: Cache[VCOMachineTemplate]

    async def reconcile(self, key: Key) -> Result:
        """Publish the capacity of a template's machines. Idempotent."""
        template = self.templates.get(key)
        if template is None or template.metadata.deletion_timestamp is not None:
            return Result()
        status = VCOMachineTemplateStatus(
            capacity=capacity(template.spec.template.spec),
            # VCO has x86 hosts only.
            node_info=NodeInfo(architecture="amd64", operating_system="linux"),
        )
        if status == template.status:
            return Result()
        try:
            written = await self.kube.apply_status(
                VCO_MACHINE_TEMPLATE, template, msgspec.to_builtins(status)
            )
        except Gone:
            return Result()
        self.templates.assume(written)
        return Result()
