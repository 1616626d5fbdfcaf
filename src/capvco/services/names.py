"""Names and ids of what CAPVCO makes: deterministic, so that it can be found again."""

import hashlib
import re

_TOKEN_LENGTH = 8
_NAME_LIMIT = 63
_ATTEMPTS = 8


def token(owner: str) -> str:
    """Return the short form of an owner id, for names and descriptions."""
    return hashlib.sha256(owner.encode()).hexdigest()[:_TOKEN_LENGTH]


def vgpu(machine: str, slot: int) -> str:
    """Name of a reservation, traceable to the machine that owns it."""
    return f"capvco-{machine}-gpu-{slot}"


def vgpu_alternatives(machine: str, slot: int, owner: str) -> tuple[str, ...]:
    """Names for a reservation in the order to try: the plain one, then distinct ones.

    A distinct name serves where a stranger holds the plain one, or an earlier attempt under it
    was lost and may still turn up.
    """
    plain = vgpu(machine, slot)
    return (plain, *(f"{plain}-{token(f'{owner}/{attempt}')}" for attempt in range(_ATTEMPTS)))


def cluster_resource(namespace: str, cluster: str) -> str:
    """Name of a cluster's cloudspace, server pool and load balancer."""
    name = f"capvco-{namespace}-{cluster}"
    if len(name) <= _NAME_LIMIT:
        return name
    return f"{name[: _NAME_LIMIT - _TOKEN_LENGTH - 1]}-{token(name)}"


def provider_id(location: str, namespace: str, machine: str, owner: str) -> str:
    """Identity of a machine for Kubernetes; its last segment is unique by itself.

    Known before the VM exists, so that the kubelet can be told, and independent of the platform's
    numbering, which repeats from one location to the next.
    """
    return f"vco://{location}/{namespace}/{machine}-{token(owner)}"


_MARK = re.compile(r"\[capvco:([0-9a-f]{8})\]")


def description(kind: str, namespace: str, name: str, owner: str) -> str:
    """Describe an object on the platform so that a person and CAPVCO know whose it is."""
    return f"{kind} {namespace}/{name} of Cluster API [capvco:{token(owner)}]"


def is_marked(text: str | None, owner: str) -> bool:
    """Say whether a description carries the mark of this owner."""
    found = _MARK.search(text or "")
    return found is not None and found.group(1) == token(owner)
