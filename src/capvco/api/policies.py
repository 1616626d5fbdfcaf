"""What may change after an object was made.

Machines and clusters are guarded by transition rules in their CRDs. Templates are not: a
ClusterClass tries changed templates in a dry run, which only a ValidatingAdmissionPolicy can see.
Neither stands in the way of ``clusterctl move``, which creates objects with all fields set.
"""

from msgspec import Struct

from capvco.api.rules import Rule
from capvco.api.schema import struct_fields
from capvco.api.v1beta1 import GROUP, VERSION
from capvco.api.v1beta1.machine import VCOMachineSpec

DRY_RUN_ANNOTATION = "topology.cluster.x-k8s.io/dry-run"

Manifest = dict[str, object]


class TemplateKind(Struct, frozen=True):
    """A template whose spec never changes, and what a person does instead."""

    kind: str
    plural: str
    advice: str


TEMPLATE_KINDS = (
    TemplateKind(
        "VCOMachineTemplate",
        "vcomachinetemplates",
        "machines that were made from it would not follow; make a new VCOMachineTemplate under"
        " another name and point the pool at it (infrastructureRef.name of the MachineDeployment"
        " or KubeadmControlPlane)",
    ),
    TemplateKind(
        "VCOClusterTemplate",
        "vcoclustertemplates",
        "make a new VCOClusterTemplate under another name and point the ClusterClass at it"
        " (spec.infrastructure.templateRef.name)",
    ),
)


def machine_rules() -> tuple[Rule, ...]:
    """Return the transition rules of VCOMachine.spec: only providerID may be set, and only once."""
    fixed = [field.encode_name for field in struct_fields(VCOMachineSpec)]
    fixed.remove("providerID")
    return (_set_once("providerID", "it is the identity of the machine"), *map(_fixed, fixed))


def cluster_rules() -> tuple[Rule, ...]:
    """Return the transition rules of VCOCluster.spec: a cluster does not move.

    Credentials may be replaced, and images of a site: both concern later calls only.
    """
    return (
        _stays("location"),
        _stays("externalNetworkID"),
        _stays("cloudspace"),
        Rule(
            "has(self.sites) == has(oldSelf.sites) && (!has(self.sites) || oldSelf.sites.all(old,"
            " self.sites.exists(new, new.name == old.name && new.location == old.location"
            " && new.externalNetworkID == old.externalNetworkID)))",
            "name, location and externalNetworkID of a site cannot be changed and a site cannot be"
            " removed, since machines live there; only its imageID may change",
            field=".sites",
        ),
        _set_once("controlPlaneEndpoint", "certificates and kubeconfigs carry it"),
    )


def template_policies() -> list[Manifest]:
    """Return the admission policies that keep templates as they are, with their bindings."""
    return [manifest for kind in TEMPLATE_KINDS for manifest in (_policy(kind), _binding(kind))]


def _fixed(name: str) -> Rule:
    return Rule(
        _same(name),
        f"{name} of an existing machine cannot be changed: make a new VCOMachineTemplate with the"
        " wanted value and point the pool at it, which replaces its machines",
        field=f".{name}",
    )


def _stays(name: str) -> Rule:
    return Rule(
        _same(name),
        f"{name} of an existing cluster cannot be changed, since machines live there: make a new"
        " cluster with the wanted value",
        field=f".{name}",
    )


def _same(name: str) -> str:
    # The apiserver's cost estimate takes "self.?x == oldSelf.?x" for unbounded.
    return (
        f"has(self.{name}) == has(oldSelf.{name})"
        f" && (!has(self.{name}) || self.{name} == oldSelf.{name})"
    )


def _set_once(name: str, why: str) -> Rule:
    return Rule(
        f"!has(oldSelf.{name}) || has(self.{name}) && self.{name} == oldSelf.{name}",
        f"{name} can be set once and not be changed or removed after that: {why}",
        field=f".{name}",
    )


def _policy_name(kind: TemplateKind) -> str:
    return f"capvco-{kind.kind.lower()}-immutable"


def _policy(kind: TemplateKind) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _policy_name(kind)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": [VERSION],
                        "operations": ["UPDATE"],
                        "resources": [kind.plural],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "object.spec == oldObject.spec || request.dryRun &&"
                    f" '{DRY_RUN_ANNOTATION}' in object.metadata.?annotations.orValue({{}})",
                    "message": f"the spec of a {kind.kind} cannot be changed: {kind.advice}",
                    "reason": "Invalid",
                }
            ],
        },
    }


def _binding(kind: TemplateKind) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _policy_name(kind)},
        "spec": {"policyName": _policy_name(kind), "validationActions": ["Deny"]},
    }
