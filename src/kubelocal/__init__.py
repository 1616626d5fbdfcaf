"""kubelocal: a real Cluster API management cluster on one machine, without containers."""

from kubelocal.binaries import Source
from kubelocal.cluster import LocalCluster
from kubelocal.errors import (
    ClusterctlError,
    CommandFailed,
    DirectoryInUse,
    KubectlError,
    KubelocalError,
    StartFailed,
    UsageError,
)
from kubelocal.options import Options, Provider
from kubelocal.progress import PlainProgress, Progress, RichProgress, for_console
from kubelocal.supervisor import Process

__all__ = [
    "ClusterctlError",
    "CommandFailed",
    "DirectoryInUse",
    "KubectlError",
    "KubelocalError",
    "LocalCluster",
    "Options",
    "PlainProgress",
    "Process",
    "Progress",
    "Provider",
    "RichProgress",
    "Source",
    "StartFailed",
    "UsageError",
    "for_console",
]
