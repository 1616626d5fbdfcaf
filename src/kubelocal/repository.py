"""A clusterctl repository in a folder: our components and the given providers, side by side."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

import yaml

from kubelocal import manifests
from kubelocal.catalogue import CLUSTER_API_VERSION
from kubelocal.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kubelocal.manifests import Component, Object
    from kubelocal.options import Provider

CONFIG_FILE: Final = "clusterctl.yaml"


class _Kind(NamedTuple):
    folder_prefix: str
    flag: str
    file: str


_KINDS: Final = {
    "CoreProvider": _Kind("", "--core", "core-components.yaml"),
    "BootstrapProvider": _Kind("bootstrap-", "--bootstrap", "bootstrap-components.yaml"),
    "ControlPlaneProvider": _Kind(
        "control-plane-", "--control-plane", "control-plane-components.yaml"
    ),
    "InfrastructureProvider": _Kind(
        "infrastructure-", "--infrastructure", "infrastructure-components.yaml"
    ),
    "AddonProvider": _Kind("addon-", "--addon", "addon-components.yaml"),
    "IPAMProvider": _Kind("ipam-", "--ipam", "ipam-components.yaml"),
    "RuntimeExtensionProvider": _Kind(
        "runtime-extension-", "--runtime-extension", "runtime-extension-components.yaml"
    ),
}


def init_flag(kind: str) -> str:
    """Say which flag of `clusterctl init` takes providers of this type; raises UsageError."""
    return _kind(kind).flag


def _kind(kind: str) -> _Kind:
    if kind not in _KINDS:
        raise UsageError(f"{kind} is no type of a provider: it is one of {', '.join(_KINDS)}")
    return _KINDS[kind]


def write_repository(
    folder: Path, own: Mapping[Component, list[Object]], metadata: str, given: Sequence[Provider]
) -> Path:
    """Lay out a clusterctl repository and the configuration that points at it; give the latter."""
    entries = []
    for component, objects in own.items():
        place = folder / component.label / CLUSTER_API_VERSION
        place.mkdir(parents=True)
        (place / component.file).write_text(manifests.documents(objects))
        (place / "metadata.yaml").write_text(metadata)
        entries.append(_entry(component.name, component.type, place / component.file))
    for provider in given:
        place = folder / f"{_kind(provider.type).folder_prefix}{provider.name}" / provider.version
        shutil.copytree(provider.directory, place)
        file = place / _kind(provider.type).file
        if not file.exists():
            raise UsageError(f"{provider.directory} has no {file.name}: build the release first")
        entries.append(_entry(provider.name, provider.type, file))
    config = folder / CONFIG_FILE
    # Its CRDs are all there is of cert-manager; never try to download the rest.
    cert_manager = {"externallyProvisioned": "true"}
    config.write_text(yaml.safe_dump({"providers": entries, "cert-manager": cert_manager}))
    return config


def _entry(name: str, kind: str, file: Path) -> dict[str, str]:
    return {"name": name, "type": kind, "url": f"file://{file}"}
