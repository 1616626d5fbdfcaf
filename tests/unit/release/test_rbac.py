"""The manager's rights are few, and each has a reason."""

from capvco.release.rbac import CLUSTER_ACCESS, LEADER_ACCESS, NAMESPACE, manifests

EVERYTHING = (*CLUSTER_ACCESS, *LEADER_ACCESS)


def test_no_wildcard() -> None:
    """A star would grant what nobody thought of."""
    words = {word for grant in EVERYTHING for word in (grant.group, *grant.resources, *grant.verbs)}
    assert "*" not in words


def test_nothing_is_deleted_and_little_is_made() -> None:
    """Objects come and go by the hand of users and Cluster API."""
    verbs = {resource: set(grant.verbs) for grant in CLUSTER_ACCESS for resource in grant.resources}
    assert not any(granted & {"delete", "deletecollection"} for granted in verbs.values())
    assert [name for name, granted in verbs.items() if "create" in granted] == ["events"]
    assert verbs["secrets"] == {"get"}


def test_no_grant_is_made_twice() -> None:
    """One place says what may be done with a resource."""
    resources = [(grant.group, name) for grant in EVERYTHING for name in grant.resources]
    assert len(resources) == len(set(resources))


def test_each_grant_has_a_reason() -> None:
    """The reference page shows it."""
    assert all(len(grant.why) >= 10 for grant in EVERYTHING)


def test_cluster_roles_are_removed_with_the_provider() -> None:
    """Clusterctl deletes cluster roles only where the name begins with the namespace."""
    names = [
        str(item["metadata"]) for item in manifests() if str(item["kind"]).startswith("ClusterRole")
    ]
    assert len(names) == 2
    assert all(f"'name': '{NAMESPACE}-" in name for name in names)
