"""Labels of a GPU node: legal for whatever the platform reports, the same for all cards alike."""

import hashlib
import re

from capvco.api.v1beta1 import GPU_MODEL_LABEL

ACCELERATOR_LABEL = "cluster-api/accelerator"
"""The cluster autoscaler waits for the device plugin on nodes that carry it."""
_LIMIT = 63
_HASH = 8


def slug(model: str) -> str:
    """Return vendor and model as a label value: ``nvidia-a100``, ``physical-nvidia-0x27b8``.

    Lower case, everything but letters and digits one hyphen. What is too long, or has no letter
    or digit at all, ends in a hash of the whole, so that different models stay different.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    if plain and len(plain) <= _LIMIT:
        return plain
    digest = hashlib.sha256(model.encode()).hexdigest()[:_HASH]
    kept = plain[: _LIMIT - _HASH - 1].strip("-") or "gpu"
    return f"{kept}-{digest}"


def node_labels(model: str) -> dict[str, str]:
    """Return the labels that a node with this model has from its first registration."""
    value = slug(model)
    return {ACCELERATOR_LABEL: value, GPU_MODEL_LABEL: value}
