"""Kinds, and ways to a real apiserver, for the tests of the runtime."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from msgspec import Struct, field
from prometheus_client import CollectorRegistry

from capvco.runtime.kinds import Kind
from capvco.runtime.kube import Kube
from capvco.runtime.wire import Meta


class ConfigMap(Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = field(default_factory=dict)


class Gadget(Struct, frozen=True):
    metadata: Meta
    spec: dict[str, int] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)


CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps", ConfigMap)
GADGETS = Kind("test.capvco.io", "v1", "Gadget", "gadgets", Gadget)

CRD = yaml.safe_dump(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.test.capvco.io"},
        "spec": {
            "group": "test.capvco.io",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "additionalProperties": {"type": "integer"},
                                },
                                "status": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        }
                    },
                }
            ],
        },
    }
)


def connect(kubeconfig: Path, registry: CollectorRegistry | None = None) -> Kube:
    return Kube.connect(kubeconfig, user_agent="test", registry=registry or CollectorRegistry())


def through(kubeconfig: Path, port: int) -> bytes:
    """Return a kubeconfig that goes through a proxy on this machine."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return yaml.safe_dump(config).encode()


def named(name: str, **more: object) -> Mapping[str, object]:
    return {"metadata": {"name": name}, **more}
