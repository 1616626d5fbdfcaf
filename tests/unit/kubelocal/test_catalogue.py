"""The catalogue and the modules that ship with it say the same."""

from __future__ import annotations

import dataclasses
import re

import pytest

from kubelocal.binaries import recipe
from kubelocal.catalogue import (
    ALL_TOOLS,
    CERT_MANAGER_VERSION,
    CLUSTER_API_VERSION,
    CLUSTERCTL,
    ETCD,
    KUBECTL,
    KUBERNETES_VERSION,
    MINIMUM_GO,
    MODULES,
    Tool,
)
from tests.support.guests.programs import KUBEADM, KUBELET
from tests.support.guests.programs import MODULE as OF_GUESTS

REQUIRED = {
    "etcd": ("go.etcd.io/etcd/server/v3", ETCD.version),
    "kubernetes": ("k8s.io/kubernetes", KUBERNETES_VERSION),
    "cluster-api": ("sigs.k8s.io/cluster-api", CLUSTER_API_VERSION),
    "cert-manager": ("github.com/cert-manager/cert-manager", CERT_MANAGER_VERSION),
    # What guests join by is of the version that they join.
    str(OF_GUESTS): ("k8s.io/kubernetes", KUBERNETES_VERSION),
}


@pytest.mark.parametrize("module", REQUIRED, ids=lambda module: module.rpartition("/")[2])
def test_each_go_mod_requires_the_version_the_catalogue_names(module: str) -> None:
    """A version is raised in both places or in none."""
    path, version = REQUIRED[module]
    text = (MODULES / module / "go.mod").read_text()
    assert re.search(
        rf"(?m)^(require )?\s*{re.escape(path)} {re.escape(version)}( // indirect)?$", text
    )
    go = re.search(r"(?m)^go (\d+)\.(\d+)", text)
    assert go is not None
    assert tuple(map(int, go.groups())) <= MINIMUM_GO


@pytest.mark.parametrize("tool", [*ALL_TOOLS, KUBEADM, KUBELET], ids=lambda tool: tool.name)
def test_each_tool_is_listed_in_its_module(tool: Tool) -> None:
    """Without the `tool` line `go mod tidy` would drop what builds it."""
    assert re.search(
        rf"(?m)^(tool )?\s*{re.escape(tool.package)}$",
        (MODULES / tool.module / "go.mod").read_text(),
    )


def test_all_staging_modules_of_kubernetes_are_replaced_by_their_release() -> None:
    """A staging module left at v0.0.0 cannot be downloaded."""
    text = (MODULES / "kubernetes" / "go.mod").read_text()
    wanted = KUBERNETES_VERSION.replace("v1.", "v0.")
    versions = re.findall(r"(?m)^replace (k8s\.io/\S+) => \1 (\S+)$", text)
    assert len(versions) > 20
    assert {version for _, version in versions} == {wanted}


def test_version_stamps_are_set_by_the_linker() -> None:
    """Unstamped binaries call themselves v0.0.0 and fail version checks."""
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in KUBECTL.ldflags
    assert "-X sigs.k8s.io/cluster-api/version.gitMinor=14" in CLUSTERCTL.ldflags
    assert ETCD.ldflags == "-s -w"


def test_a_recipe_changes_with_everything_that_decides_the_binary() -> None:
    """Package, version stamp and module each give another key; the same tool the same one."""
    changed = [
        dataclasses.replace(KUBECTL, package="k8s.io/kubernetes/cmd/kubeadm"),
        dataclasses.replace(KUBECTL, version="v1.36.4"),
        dataclasses.replace(KUBECTL, module="etcd"),
    ]
    keys = {recipe(tool) for tool in (KUBECTL, *changed)}
    assert len(keys) == 4
    assert recipe(KUBECTL) == recipe(dataclasses.replace(KUBECTL, build_seconds=1.0))
