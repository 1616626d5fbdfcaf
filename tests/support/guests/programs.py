"""kubelet and kubeadm, built from their Go modules, static, kept in the cache of kubelocal.

``python -m tests.support.guests.programs`` builds them.
"""

import os
import sys
from pathlib import Path

from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import KUBERNETES_VERSION, Tool
from kubelocal.progress import PlainProgress
from kubelocal.store import Store, default_root

MODULE = Path(__file__).parent / "kubernetes"
"""A module of its own: what kubelet needs is more than what a control plane does."""


def _tool(name: str, seconds: float) -> Tool:
    return Tool(
        name,
        KUBERNETES_VERSION,
        str(MODULE),
        f"k8s.io/kubernetes/cmd/{name}",
        "k8s.io/component-base/version",
        build_seconds=seconds,
    )


KUBEADM = _tool("kubeadm", 21.0)
KUBELET = _tool("kubelet", 101.0)


def get() -> dict[str, Path]:
    """Return kubeadm and kubelet by name; builds them on the first use. Raises NeedsGo."""
    progress = PlainProgress(lambda text: print(text, file=sys.stderr))  # noqa: T201 - it is heard
    store = Store(default_root(os.environ))
    return Binaries(store, os.environ, Source.BUILD, progress).get((KUBEADM, KUBELET))


if __name__ == "__main__":
    for path in get().values():
        sys.stdout.write(f"{path}\n")
