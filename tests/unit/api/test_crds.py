"""The CRDs carry what Cluster API and clusterctl look for."""

import pytest
from msgspec import convert

from capvco.api.crds import Definition, crds, definitions
from capvco.api.policies import Manifest, machine_rules, template_policies
from capvco.api.schema import struct_fields
from capvco.api.v1beta1.machine import VCOMachineSpec

GROUP = "infrastructure.cluster.x-k8s.io"


def names(manifests: list[Manifest]) -> list[str]:
    return [str(convert(manifest["metadata"], Manifest)["name"]) for manifest in manifests]


def version_of(crd: Manifest) -> Manifest:
    spec = convert(crd["spec"], Manifest)
    return convert(spec["versions"], list[Manifest])[0]


def test_names() -> None:
    """Cluster API and the autoscaler find kinds by the regular plural."""
    assert names(crds()) == [
        f"{plural}.{GROUP}"
        for plural in ("vcoclusters", "vcoclustertemplates", "vcomachines", "vcomachinetemplates")
    ]


@pytest.mark.parametrize("crd", crds())
def test_contract(crd: Manifest) -> None:
    """Core resolves a kind by the contract label, whose value is a served version."""
    labels = convert(convert(crd["metadata"], Manifest)["labels"], dict[str, str])
    version = version_of(crd)
    assert labels == {
        "cluster.x-k8s.io/v1beta2": version["name"],
        "cluster.x-k8s.io/provider": "infrastructure-vco",
    }
    assert version["served"] is True
    assert version["storage"] is True


@pytest.mark.parametrize("definition", definitions())
def test_columns(definition: Definition) -> None:
    """Columns have names of their own, and the age comes last."""
    titles = [column.name for column in definition.columns]
    assert len(set(titles)) == len(titles)
    assert titles[-1] == "Age"


def test_short_names_differ() -> None:
    """A short name stands for one kind."""
    assert [definition.short_name for definition in definitions()] == [
        "vcoc",
        "vcoct",
        "vcom",
        "vcomt",
    ]


def test_status_is_a_subresource_where_there_is_one() -> None:
    """Only a cluster template has nothing to report."""
    with_status = [
        definition.kind
        for definition, crd in zip(definitions(), crds(), strict=True)
        if "subresources" in version_of(crd)
    ]
    assert with_status == ["VCOCluster", "VCOMachine", "VCOMachineTemplate"]


def test_every_field_of_a_machine_is_guarded() -> None:
    """A field that is added later cannot be forgotten."""
    guarded = [rule.field for rule in machine_rules()]
    assert sorted(guarded) == sorted(
        f".{field.encode_name}" for field in struct_fields(VCOMachineSpec)
    )


def test_each_policy_has_its_binding() -> None:
    """A policy without a binding would do nothing."""
    policies, bindings = template_policies()[::2], template_policies()[1::2]
    assert len(policies) == 2
    assert names(policies) == names(bindings)
    assert names(policies) == [
        str(convert(binding["spec"], Manifest)["policyName"]) for binding in bindings
    ]
