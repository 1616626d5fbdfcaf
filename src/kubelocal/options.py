"""What a caller says about the cluster it wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubelocal.binaries import Source
from kubelocal.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Options:
    """One local cluster."""

    directory: Path
    """Everything the cluster writes lies here; what an earlier cluster left here is removed."""
    capi: bool = True
    """Have the tools and manifests of Cluster API ready, so that `init` can be called."""
    controller_manager: bool = True
    """Run kube-controller-manager: namespace deletion, garbage collection, ServiceAccounts."""
    nodes: bool = False
    """Let real machines join by `kubeadm join`: bootstrap tokens, signed kubelet certificates, and
    the rights of nodes enforced. Needs the controller-manager."""
    hosts: tuple[str, ...] = ()
    """Further names and addresses at which the API server may be reached, for its certificate."""
    source: Source | str = Source.AUTO
    """Where tools that are not at hand may come from: auto, download or build."""
    cache: Path | None = None
    """Where tools are kept; None: KUBELOCAL_CACHE, XDG_CACHE_HOME/kubelocal, ~/.cache/kubelocal."""
    progress: Progress = field(default_factory=Progress)
    """Told what happens."""
    keep: bool = False
    """Let the processes outlive this one: `leave` may then be called instead of `stop`."""


@dataclass(frozen=True)
class Provider:
    """A Cluster API provider in a local folder, for `clusterctl init`."""

    name: str
    """As its users name it, such as `vco`."""
    type: str
    """As clusterctl spells it, such as `InfrastructureProvider`."""
    version: str
    """Such as `v0.1.0`; the provider's metadata.yaml has a series for it."""
    directory: Path
    """Holds infrastructure-components.yaml (by type), metadata.yaml and any templates."""
