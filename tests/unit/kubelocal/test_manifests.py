"""Components turned into what works with managers as plain processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from kubelocal.errors import UsageError
from kubelocal.manifests import BOOTSTRAP, CORE, Object, documents, local
from kubelocal.options import Provider
from kubelocal.repository import init_flag, write_repository

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = {"name": "webhook-service", "namespace": "capi-system", "path": "/mutate"}
OBJECTS: list[Object] = [
    {"kind": "Namespace", "metadata": {"name": "capi-system"}},
    {"kind": "Certificate", "metadata": {"name": "serving-cert"}},
    {"kind": "Issuer", "metadata": {"name": "selfsigned"}},
    {"kind": "Deployment", "metadata": {"name": "manager"}},
    {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mutating"},
        "webhooks": [{"name": "a", "clientConfig": {"service": SERVICE}}],
    },
    {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters"},
        "spec": {
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": SERVICE | {"path": "/convert"}},
                },
            }
        },
    },
    {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "plain"},
        "spec": {"conversion": {"strategy": "None"}},
    },
]


def test_certificates_go_and_everything_else_stays() -> None:
    """Deployments too: clusterctl wants to see them."""
    kinds = [found["kind"] for found in local(OBJECTS, "https://127.0.0.1:1", "Q0E=")]
    assert "Certificate" not in kinds
    assert "Issuer" not in kinds
    assert len(kinds) == len(OBJECTS) - 2


def test_webhooks_and_conversions_point_at_the_process() -> None:
    """With the path they had, and the authority to trust; the originals are left as they were."""
    before = json.dumps(OBJECTS)
    found = {o["metadata"]["name"]: o for o in local(OBJECTS, "https://127.0.0.1:9", "Q0E=")}
    assert found["mutating"]["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:9/mutate",
        "caBundle": "Q0E=",
    }
    assert found["clusters"]["spec"]["conversion"]["webhook"] == {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/convert", "caBundle": "Q0E="},
    }
    assert found["plain"]["spec"] == {"conversion": {"strategy": "None"}}
    assert json.dumps(OBJECTS) == before


def test_documents_are_yaml() -> None:
    """One for each object, in order."""
    assert list(yaml.safe_load_all(documents(OBJECTS))) == OBJECTS


def provider(folder: Path, **files: str) -> Provider:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.yaml").write_text(text)
    return Provider("example", "InfrastructureProvider", "v0.1.0", folder)


def test_a_repository_has_what_clusterctl_expects(tmp_path: Path) -> None:
    """Folders named by label and version, every file of the given provider, file URLs."""
    given = provider(
        tmp_path / "dist",
        infrastructure_components="kind: Namespace",
        metadata="kind: Metadata",
        cluster_template_gpu="kind: Cluster",
    )
    root = tmp_path / "repository"
    config = write_repository(root, {CORE: OBJECTS, BOOTSTRAP: OBJECTS}, "meta", [given])
    assert (root / "cluster-api/v1.14.2/core-components.yaml").exists()
    assert (root / "bootstrap-kubeadm/v1.14.2/metadata.yaml").read_text() == "meta"
    ours = root / "infrastructure-example/v0.1.0"
    assert (ours / "cluster-template-gpu.yaml").read_text() == "kind: Cluster"
    read = yaml.safe_load(config.read_text())
    assert read["cert-manager"] == {"externallyProvisioned": "true"}
    assert read["providers"][-1] == {
        "name": "example",
        "type": "InfrastructureProvider",
        "url": f"file://{ours}/infrastructure-components.yaml",
    }


def test_a_provider_without_components_is_refused(tmp_path: Path) -> None:
    """Before anything is installed, with the file that is missing."""
    given = provider(tmp_path / "dist", metadata="kind: Metadata")
    with pytest.raises(UsageError, match=r"has no infrastructure-components\.yaml"):
        write_repository(tmp_path / "repository", {}, "meta", [given])


def test_an_unknown_type_of_provider_is_refused_with_those_there_are() -> None:
    """Misspelt is the likeliest."""
    assert init_flag("InfrastructureProvider") == "--infrastructure"
    with pytest.raises(UsageError, match=r"Infrastructure is no type .* InfrastructureProvider"):
        init_flag("Infrastructure")
