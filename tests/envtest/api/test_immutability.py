"""What may change after creation, against the real apiserver."""

import pytest

from capvco.api.policies import DRY_RUN_ANNOTATION
from tests.envtest.api.apiserver import Answer, Apiserver, Json

pytestmark = pytest.mark.cluster

MACHINE: Json = {"imageID": 12, "gpu": {"type": "NVIDIA A100"}}
CLUSTER: Json = {"identityRef": {"name": "s"}, "location": "be", "externalNetworkID": 5}
SITE: Json = {"name": "be", "location": "be-g8-4", "externalNetworkID": 5}
TOPOLOGY = "capi-topology"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("imageID", 13),
        ("vcpus", 4),
        ("memoryMiB", 8192),
        ("diskGiB", 60),
        ("bootType", "uefi"),
        ("installKubernetes", "Never"),
        ("gpu", None),
        ("gpu", {"count": 2}),
        ("gpu", {"driverVersion": "550"}),
        ("gpu", {"type": None, "profileId": "a"}),
    ],
)
def test_a_machine_stays_as_it_is(api: Apiserver, field: str, value: object) -> None:
    """Any change of its spec is refused and names the way: a new template."""
    api.create("VCOMachine", "m", MACHINE)
    refused = api.patch("VCOMachine", "m", {"spec": {field: value}})
    sentence = (
        f"spec.{field}: Invalid value: {field} of an existing machine cannot be changed: make"
    )
    assert sentence in refused.said


def test_a_machine_without_gpu_gets_none_later(api: Apiserver) -> None:
    """The GPU is attached before the first boot or not at all."""
    api.create("VCOMachine", "m", {"imageID": 12})
    assert "gpu of an existing machine" in api.patch("VCOMachine", "m", {"spec": MACHINE}).said


def test_provider_id_is_set_once(api: Apiserver) -> None:
    """From absent to a value, and never again."""
    api.create("VCOMachine", "m", MACHINE)

    def set_to(value: str | None) -> Answer:
        return api.patch("VCOMachine", "m", {"spec": {"providerID": value}})

    assert set_to("vco://be/default/m-1").said == "accepted"
    assert set_to("vco://be/default/m-1").said == "accepted"
    for change in ("vco://be/default/m-2", None):
        assert "spec.providerID: Invalid value: providerID can be set once" in set_to(change).said


def test_metadata_of_a_machine_may_change(api: Apiserver) -> None:
    """Cluster API propagates labels in place, and the finalizer comes and goes."""
    api.create("VCOMachine", "m", MACHINE)
    labels = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.org/f"]}}
    assert api.patch("VCOMachine", "m", labels).said == "accepted"
    assert api.patch("VCOMachine", "m", {"metadata": {"finalizers": None}}).said == "accepted"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("location", "nl"),
        ("externalNetworkID", 6),
        ("cloudspace", {"id": "a"}),
        ("cloudspace", {"name": "other"}),
    ],
)
def test_a_cluster_stays_where_it_is(api: Apiserver, field: str, value: object) -> None:
    """Its machines live there."""
    api.create("VCOCluster", "c", CLUSTER)
    refused = api.patch("VCOCluster", "c", {"spec": {field: value}})
    assert f"spec.{field}: Invalid value: {field} of an existing cluster cannot be" in refused.said


@pytest.mark.parametrize("change", [{"location": "nl"}, {"externalNetworkID": 6}, {"name": "nl"}])
def test_a_site_stays_where_it_is(api: Apiserver, change: Json) -> None:
    """Neither place nor name may change, since failure domains go by the name."""
    api.create("VCOCluster", "c", {"identityRef": {"name": "s"}, "sites": [SITE]})
    refused = api.patch("VCOCluster", "c", {"spec": {"sites": [SITE | change]}})
    assert (
        "spec.sites: Invalid value: name, location and externalNetworkID of a site" in refused.said
    )


def test_a_cluster_does_not_change_its_form(api: Apiserver) -> None:
    """From one place to sites would rename the failure domain under the machines."""
    api.create("VCOCluster", "c", CLUSTER)
    form = {"location": None, "externalNetworkID": None, "sites": [SITE]}
    refused = api.patch("VCOCluster", "c", {"spec": form}).said
    assert "location of an existing cluster cannot be changed" in refused
    assert "a site cannot be removed" in refused


def test_what_may_change_in_a_cluster(api: Apiserver) -> None:
    """Other credentials and other images concern later calls only."""
    api.create("VCOCluster", "c", {"identityRef": {"name": "s"}, "sites": [SITE]})
    change = {"identityRef": {"name": "t"}, "sites": [SITE | {"imageID": 4}]}
    assert api.patch("VCOCluster", "c", {"spec": change}).said == "accepted"


def test_endpoint_is_set_once(api: Apiserver) -> None:
    """The controller writes it when the balancer is there; certificates carry it from then on."""
    api.create("VCOCluster", "c", CLUSTER)

    def set_to(value: Json | None) -> Answer:
        return api.patch("VCOCluster", "c", {"spec": {"controlPlaneEndpoint": value}})

    assert set_to({"host": "203.0.113.7", "port": 6443}).said == "accepted"
    changes: list[Json | None] = [{"host": "203.0.113.8"}, {"port": 443}, None]
    for change in changes:
        assert "controlPlaneEndpoint can be set once" in set_to(change).said


def test_moved_objects_are_created_whole(api: Apiserver) -> None:
    """``clusterctl move`` makes them anew with all that was set at the source."""
    moved = MACHINE | {"providerID": "vco://be/default/m-1"}
    finalizers = ["vcomachine.infrastructure.cluster.x-k8s.io"]
    assert api.create("VCOMachine", "m", moved, finalizers=finalizers).said == "accepted"
    endpoint = {"controlPlaneEndpoint": {"host": "203.0.113.7", "port": 6443}}
    assert api.create("VCOCluster", "c", CLUSTER | endpoint).said == "accepted"
    assert api.patch("VCOMachine", "m", {"metadata": {"finalizers": None}}).said == "accepted"


TEMPLATES: dict[str, tuple[Json, Json, str]] = {
    "VCOMachineTemplate": (MACHINE, {"imageID": 13}, "point the pool at it"),
    "VCOClusterTemplate": (CLUSTER, {"location": "nl"}, "point the ClusterClass at it"),
}


def in_template(spec: Json) -> Json:
    return {"template": {"spec": spec}}


@pytest.fixture(params=TEMPLATES)
def template(api: Apiserver, request: pytest.FixtureRequest) -> str:
    """Have a template that Cluster API's topology controller applied."""
    kind = str(request.param)
    body = {"spec": in_template(TEMPLATES[kind][0])}
    assert api.apply(kind, "t", body, manager=TOPOLOGY).said == "accepted"
    return kind


def changed(kind: str, *, annotated: bool) -> Json:
    """Return the template with another spec, as the topology controller tries it."""
    spec, change, _ = TEMPLATES[kind]
    body: Json = {"spec": in_template(spec | change)}
    return body | ({"metadata": {"annotations": {DRY_RUN_ANNOTATION: ""}}} if annotated else {})


def test_a_template_stays_as_it_is(api: Apiserver, template: str) -> None:
    """An update is refused and names the way."""
    refused = api.patch(template, "t", changed(template, annotated=False))
    assert f"the spec of a {template} cannot be changed: " in refused.said
    assert TEMPLATES[template][2] in refused.said
    assert refused.status == 422


def test_the_topology_controller_may_try_a_change(api: Apiserver, template: str) -> None:
    """Its dry run, by server-side apply with its annotation, passes and changes nothing."""
    body = changed(template, annotated=True)
    tried = api.apply(template, "t", body, manager=TOPOLOGY, dryRun="All")
    assert tried.said == "accepted"
    assert tried.part("spec.template.spec") != api.get(template, "t").part("spec.template.spec")


@pytest.mark.parametrize(("annotated", "dry_run"), [(True, False), (False, True), (False, False)])
def test_neither_mark_alone_opens_the_door(
    api: Apiserver, template: str, *, annotated: bool, dry_run: bool
) -> None:
    """An annotated real update, and a user's own dry run, are refused as the real thing would."""
    body = changed(template, annotated=annotated)
    parameters = {"dryRun": "All"} if dry_run else {}
    refused = api.apply(template, "t", body, manager=TOPOLOGY, **parameters)
    assert "cannot be changed" in refused.said


def test_metadata_of_a_template_may_change(api: Apiserver, template: str) -> None:
    """Cluster API makes the Cluster its owner."""
    owner = {"apiVersion": "unserved.example/v1", "kind": "Cluster", "name": "c", "uid": "u"}
    change = {"metadata": {"labels": {"a": "b"}, "ownerReferences": [owner]}}
    assert api.patch(template, "t", change).said == "accepted"


def test_status_of_a_template_may_change(api: Apiserver) -> None:
    """The controller publishes what a node will be, quantities as strings."""
    api.create("VCOMachineTemplate", "t", in_template(MACHINE))
    capacity = {"cpu": "2", "memory": "4096Mi", "ephemeral-storage": "50Gi", "nvidia.com/gpu": "1"}
    node = {"architecture": "amd64", "operatingSystem": "linux"}
    written = api.patch_status("VCOMachineTemplate", "t", {"capacity": capacity, "nodeInfo": node})
    assert written.part("status.capacity") == capacity
    refused = api.patch_status("VCOMachineTemplate", "t", {"capacity": {"cpu": 2}})
    assert 'must be of type string: "integer"' in refused.said
