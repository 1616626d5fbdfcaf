"""Labels of a node: legal for whatever the platform reports, the same for all cards alike.

Who wins where two want a label to say different things: of our own keys we do; the others belong to
whoever uses them, so they are set where they are missing and otherwise left alone.
"""

import hashlib
import re
from collections.abc import Mapping

from capvco.api.v1beta1 import FAILURE_DOMAIN_LABEL, GPU_MODEL_LABEL, PREFIX

ACCELERATOR_LABEL = "cluster-api/accelerator"
"""The cluster autoscaler waits for the device plugin on nodes that carry it."""
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
_LIMIT = 63
_HASH = 8
_LEGAL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def slug(model: str) -> str:
    """Return vendor and model as a label value: ``nvidia-a100``, ``physical-nvidia-0x27b8``.

    Lower case, everything but letters and digits one hyphen; a vendor that the model repeats is
    named once. What is too long, or has no letter or digit at all, ends in a hash of the whole, so
    that different models stay different.
    """
    plain = "-".join(_once(re.findall(r"[a-z0-9]+", model.lower())))
    if plain and len(plain) <= _LIMIT:
        return plain
    digest = hashlib.sha256(model.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    kept = plain[: _LIMIT - _HASH - 1].strip("-") or "gpu"
    return f"{kept}-{digest}"


def _once(words: list[str]) -> list[str]:
    """Drop the words at the beginning that come again right after."""
    for length in range(len(words) // 2, 0, -1):
        if words[:length] == words[length : 2 * length]:
            return words[length:]
    return words


def node_labels(model: str, failure_domain: str, location: str) -> dict[str, str]:
    """Return the labels that a node should have; an empty model stands for no GPU.

    Names that are no legal value are left out: with one of them a kubelet would not start, and an
    API server would refuse all the others with it.
    """
    labels = {
        FAILURE_DOMAIN_LABEL: failure_domain,
        ZONE_LABEL: failure_domain,
        REGION_LABEL: location,
    }
    if model:
        labels |= dict.fromkeys((GPU_MODEL_LABEL, ACCELERATOR_LABEL), slug(model))
    return {key: value for key, value in labels.items() if _LEGAL.fullmatch(value)}


def to_put_back(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return what to set on a node: our own labels that differ, and others that are missing."""
    return {
        key: value
        for key, value in wanted.items()
        if key not in present or (key.startswith(f"{PREFIX}/") and present[key] != value)
    }
