"""What the manager may do: the least that its controllers need, each grant with its reason.

The table is the one place where a right is given; roles, bindings and the reference page follow
from it.
"""

from collections.abc import Iterable

from msgspec import Struct

from capvco.api.policies import Manifest
from capvco.api.v1beta1 import GROUP

NAMESPACE = "capvco-system"
SERVICE_ACCOUNT = "capvco-manager"
# clusterctl removes cluster roles with a provider only if their names begin with its namespace.
CLUSTER_ROLE = f"{NAMESPACE}-manager"
LEADER_ROLE = "capvco-leader-election"

_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")


class Access(Struct, frozen=True):
    """Verbs on resources of one API group, and why the manager needs them."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str


CLUSTER_ACCESS = (
    Access(
        GROUP,
        ("vcoclusters", "vcomachines"),
        (*_READ, "patch"),
        "reconciles them: finalizers, the record of intent, providerID and the endpoint are"
        " applied, never replaced; they are made and deleted by others",
    ),
    Access(
        GROUP,
        ("vcomachinetemplates",),
        _READ,
        "computes what a node of the template will be, to scale a pool from zero",
    ),
    Access(
        GROUP,
        ("vcoclusters/status", "vcomachines/status", "vcomachinetemplates/status"),
        ("patch",),
        "says what was seen",
    ),
    Access(
        "cluster.x-k8s.io",
        ("clusters", "machines"),
        _READ,
        "reads pause, readiness, bootstrap data and failure domain of the owners",
    ),
    Access(
        "",
        ("secrets",),
        ("get",),
        "reads the credentials that a VCOCluster names and the bootstrap data that a Machine names,"
        " one by one; the users choose names and namespaces, so they cannot be narrowed here, but"
        " Secrets are neither listed nor watched",
    ),
    Access(
        "events.k8s.io",
        ("events",),
        ("create", "get", "patch"),
        "tells what happened to an object, and counts up when it happens again",
    ),
)

LEADER_ACCESS = (
    Access(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "elects the one manager that acts",
    ),
)


def manifests() -> list[Manifest]:
    """Return the ServiceAccount, its roles and their bindings."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _here(SERVICE_ACCOUNT)},
        _role("Role", _here(LEADER_ROLE), LEADER_ACCESS),
        _binding("Role", _here(LEADER_ROLE)),
        _role("ClusterRole", {"name": CLUSTER_ROLE}, CLUSTER_ACCESS),
        _binding("ClusterRole", {"name": CLUSTER_ROLE}),
    ]


def _here(name: str) -> Manifest:
    return {"name": name, "namespace": NAMESPACE}


def _role(kind: str, metadata: Manifest, access: Iterable[Access]) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [
            {
                "apiGroups": [grant.group],
                "resources": list(grant.resources),
                "verbs": list(grant.verbs),
            }
            for grant in access
        ],
    }


def _binding(kind: str, metadata: Manifest) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", **_here(SERVICE_ACCOUNT)}],
    }
