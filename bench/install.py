"""Install the release, with Cluster API's managers or with no more than its CRDs."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Final

import yaml

from capvco.release.build import COMPONENTS, assets, write
from kubelocal import Provider, manifests
from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import KUBECTL
from kubelocal.progress import Progress
from kubelocal.store import Store, default_root

if TYPE_CHECKING:
    from bench.objects import Object
    from kubelocal import LocalCluster

VERSION: Final = "v0.1.0"
_CRD: Final = "CustomResourceDefinition"


def install_with_capi(cluster: LocalCluster) -> None:
    """Install the release by the real clusterctl, and start Cluster API's managers."""
    folder = cluster.directory / "assets"
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, VERSION)
    cluster.init([Provider("vco", "InfrastructureProvider", VERSION, folder)])


def install_alone(cluster: LocalCluster) -> None:
    """Install the release and the CRDs of Cluster API, none of whose managers will run."""
    ours = [found for found in yaml.safe_load_all(assets(VERSION)[COMPONENTS]) if found]
    crds = [*_capi_crds(), *(found for found in ours if found["kind"] == _CRD)]
    _apply(cluster, crds)
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    # Nothing here runs a Deployment: the manager is a process.
    _apply(cluster, [found for found in ours if found["kind"] not in {_CRD, "Deployment"}])


def _apply(cluster: LocalCluster, found: list[Object]) -> None:
    cluster.apply("\n---\n".join(map(json.dumps, found)))


def _capi_crds() -> list[Object]:
    """Give the core CRDs, whose conversion webhook, a part of a manager, is not there."""
    progress, store = Progress(), Store(default_root(os.environ))
    kubectl = Binaries(store, os.environ, Source.AUTO, progress).get((KUBECTL,))[KUBECTL.name]
    rendered = manifests.get(store, kubectl, os.environ, progress)
    crds = [found for found in rendered.objects(manifests.CORE) if found["kind"] == _CRD]
    for crd in crds:
        crd["spec"].pop("conversion", None)
    return crds
