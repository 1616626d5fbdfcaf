"""The manager's account may do what the table declares, and nothing else."""

import itertools

import httpx2
import pytest

from capvco.release.rbac import CLUSTER_ACCESS, LEADER_ACCESS, NAMESPACE, SERVICE_ACCOUNT, Access
from kubelocal import LocalCluster
from tests.envtest.api.apiserver import Apiserver

pytestmark = pytest.mark.cluster

USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
OURS = "infrastructure.cluster.x-k8s.io"
RESOURCES = {
    OURS: [
        f"{plural}{part}"
        for plural in ("vcoclusters", "vcoclustertemplates", "vcomachines", "vcomachinetemplates")
        for part in ("", "/status", "/finalizers")
    ],
    "cluster.x-k8s.io": ["clusters", "machines", "machines/status", "machinedeployments"],
    "": ["secrets", "events", "configmaps", "nodes", "pods", "pods/exec", "serviceaccounts"],
    "events.k8s.io": ["events"],
    "coordination.k8s.io": ["leases"],
    "rbac.authorization.k8s.io": ["clusterroles", "clusterrolebindings"],
    "apiextensions.k8s.io": ["customresourcedefinitions"],
    "admissionregistration.k8s.io": ["validatingadmissionpolicies"],
    "authentication.k8s.io": ["tokenreviews"],
}


def declared(access: tuple[Access, ...]) -> set[tuple[str, str, str]]:
    return {
        (grant.group, resource, verb)
        for grant in access
        for resource in grant.resources
        for verb in grant.verbs
    }


def universe() -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for group, resources in RESOURCES.items()
        for resource, verb in itertools.product(resources, VERBS)
    }


def allowed(api: Apiserver, namespace: str, right: tuple[str, str, str]) -> bool:
    group, resource, verb = right
    name, _, subresource = resource.partition("/")
    attributes = {"namespace": namespace, "group": group, "resource": name, "verb": verb}
    review = {"resourceAttributes": attributes | {"subresource": subresource}, "user": USER}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]
    answer = api.post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": review | {"groups": [*groups, "system:authenticated"]},
        },
    )
    assert answer.accepted, answer.said
    return answer.part("status.allowed") is True


def test_everything_declared_is_in_the_universe() -> None:
    """Else the tests below would not see a right that is granted."""
    assert declared(CLUSTER_ACCESS) | declared(LEADER_ACCESS) <= universe()


def test_rights_in_a_namespace_of_a_user(api: Apiserver) -> None:
    """Exactly the declared ones: no Lease, no role, nothing of the node's."""
    granted = {right for right in universe() if allowed(api, api.namespace, right)}
    assert granted == declared(CLUSTER_ACCESS)


def test_rights_in_its_own_namespace(api: Apiserver) -> None:
    """The Lease besides."""
    granted = {right for right in universe() if allowed(api, NAMESPACE, right)}
    assert granted == declared(CLUSTER_ACCESS) | declared(LEADER_ACCESS)


def test_nobody_else_got_rights(installed: LocalCluster) -> None:
    """The roles are bound to the manager's account alone."""
    path = '{.items[?(@.metadata.name=="capvco-system-manager")].subjects[*].name}'
    subjects = installed.kubectl("get", "clusterrolebindings", "-o", f"jsonpath={path}")
    assert subjects.split() == [SERVICE_ACCOUNT]


def test_http_is_the_administrator(http: httpx2.Client) -> None:
    """The reviews above were asked by someone who may ask for others."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    groups = http.post(path, json=body).json()["status"]["userInfo"]["groups"]
    assert "system:masters" in groups
