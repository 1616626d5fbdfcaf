"""Good and bad objects against the real apiserver: each bad one is refused with a sentence."""

import pytest

from tests.envtest.api.apiserver import Apiserver, Json

pytestmark = pytest.mark.cluster

GPU: Json = {"type": "NVIDIA A100", "count": 1, "driverVersion": "550"}
PLACE: Json = {"location": "be-g8-4", "externalNetworkID": 5}
SITE: Json = {"name": "be-g8-4", **PLACE}
CLUSTER: Json = {"identityRef": {"name": "vco-credentials"}}


def machine(**fields: object) -> Json:
    return {"imageID": 12, **fields}


def gpu(**fields: object) -> Json:
    return machine(gpu=fields)


def cluster(**fields: object) -> Json:
    return CLUSTER | PLACE | fields


def sites(*items: Json) -> Json:
    return CLUSTER | {"sites": list(items)}


GOOD_MACHINES = {
    "least": machine(),
    "gpu by type": machine(gpu=GPU),
    "gpu by vendor": gpu(type="Physical Nvidia"),
    "gpu by model": gpu(type="0x27b8"),
    "gpu by profile": gpu(profileId="7f3c", count=16),
    "open kernel modules": gpu(type="NVIDIA A100", driverVersion="580-open"),
    "driver in the image": gpu(type="NVIDIA A100", driverVersion=""),
    "all sizes": machine(vcpus=256, memoryMiB=4194304, diskGiB=16384, bootType="uefi"),
    "moved": machine(providerID="vco://be-g8-4/default/m-0a1b2c3d"),
}

BAD_MACHINES = {
    "no image": ({}, "spec.imageID: Required value"),
    "image 0": (machine(imageID=0), "spec.imageID in body should be greater than or equal to 1"),
    "image as text": (machine(imageID="12"), 'spec.imageID in body must be of type integer: "str'),
    "no vcpu": (machine(vcpus=0), "spec.vcpus in body should be greater than or equal to 1"),
    "odd memory": (machine(memoryMiB=4097), "spec.memoryMiB in body should be a multiple of 2"),
    "no memory": (machine(memoryMiB=2), "spec.memoryMiB in body should be greater than or equal"),
    "no disk": (machine(diskGiB=0), "spec.diskGiB in body should be greater than or equal to 1"),
    "boot type": (
        machine(bootType="efi"),
        'spec.bootType: Unsupported value: "efi": supported values: "bios", "uefi", "uefi-secure',
    ),
    "install sometimes": (
        machine(installKubernetes="Sometimes"),
        'installKubernetes: Unsupported value: "Sometimes": supported values: "IfMissing", "Never"',
    ),
    "failure domain": (machine(failureDomain="be"), 'unknown field "spec.failureDomain"'),
    "gpu of nothing": (gpu(), "spec.gpu: Invalid value: set exactly one of gpu.type (a vendor"),
    "gpu of both": (gpu(type="A", profileId="b"), "set exactly one of gpu.type (a vendor, a model"),
    "empty type": (gpu(type=""), "spec.gpu.type in body should be at least 1 chars long"),
    "blank type": (gpu(type=" - "), 'spec.gpu.type: Invalid value: " - ": a GPU type has letters'),
    "no gpu": (gpu(type="A", count=0), "gpu.count in body should be greater than or equal to 1"),
    "17 gpus": (gpu(type="A", count=17), "spec.gpu.count in body should be less than or equal to"),
    "driver as number": (
        gpu(type="A", driverVersion=550),
        'spec.gpu.driverVersion in body must be of type string: "integer"',
    ),
    "full driver version": (
        gpu(type="A", driverVersion="550.54.14"),
        'spec.gpu.driverVersion: Invalid value: "550.54.14": driverVersion is a driver branch,',
    ),
    "empty provider id": (
        machine(providerID=""),
        "spec.providerID in body should be at least 1 chars long",
    ),
}

GOOD_CLUSTERS = {
    "one place": cluster(),
    "one site": sites(SITE),
    "site with its image": sites(SITE | {"imageID": 3}),
    "own cloudspace": cluster(cloudspace={"name": "mine", "privateNetwork": "10.1.0.0/24"}),
    "cloudspace of defaults": cluster(cloudspace={}),
    "existing cloudspace": cluster(cloudspace={"id": "YmUtZzgtNDoxMjM"}),
    "own endpoint": cluster(controlPlaneEndpoint={"host": "api.example.org", "port": 443}),
    "IPv6 endpoint": cluster(controlPlaneEndpoint={"host": "2001:db8::1", "port": 6443}),
}

BAD_CLUSTERS = {
    "no credentials": (PLACE, "spec.identityRef: Required value"),
    "credentials elsewhere": (
        cluster(identityRef={"kind": "ConfigMap", "name": "c"}),
        'spec.identityRef.kind: Unsupported value: "ConfigMap": supported values: "Secret"',
    ),
    "name of credentials": (
        cluster(identityRef={"name": "VCO_credentials"}),
        "the name of a Secret has only lower-case letters, digits, hyphens and dots",
    ),
    "nowhere": (CLUSTER, "say where the cluster lives: set location and externalNetworkID, or si"),
    "twice": (cluster(sites=[SITE]), "say where the cluster lives: set location and externalNetw"),
    "no network": (
        CLUSTER | {"location": "be-g8-4"},
        "location and externalNetworkID belong together: set both, or describe the site under site",
    ),
    "network as name": (
        cluster(externalNetworkID="public"),
        'spec.externalNetworkID in body must be of type integer: "string"',
    ),
    "no sites": (sites(), "spec.sites in body should have at least 1 items"),
    "two sites": (
        sites(SITE, SITE | {"name": "be-g8-5"}),
        "spec.sites: Invalid value: this version of CAPVCO supports one site for each",
    ),
    "name of a site": (
        sites(SITE | {"name": "BE G8"}),
        "the name of a site has only lower-case letters, digits, hyphens and dots, such as be-g8-4",
    ),
    "existing cloudspace with a network": (
        cluster(cloudspace={"id": "a", "privateNetwork": "10.1.0.0/24"}),
        "cloudspace.id names an existing cloudspace, whose name and privateNetwork are its own",
    ),
    "host in the network": (
        cluster(cloudspace={"privateNetwork": "10.1.0.7/24"}),
        "privateNetwork is an IPv4 network, address and prefix length, such as 192.168.103.0/24",
    ),
    "IPv6 network": (
        cluster(cloudspace={"privateNetwork": "2001:db8::/32"}),
        "privateNetwork is an IPv4 network, address and prefix length, such as 192.168.103.0/24",
    ),
    "network of words": (
        cluster(cloudspace={"privateNetwork": "some network"}),
        "privateNetwork is an IPv4 network, address and prefix length, such as 192.168.103.0/24",
    ),
    "endpoint with scheme": (
        cluster(controlPlaneEndpoint={"host": "https://api.example.org", "port": 443}),
        "host is a host name or an IP address alone, without scheme, port and path, such as api.ex",
    ),
    "endpoint without port": (
        cluster(controlPlaneEndpoint={"host": "api.example.org"}),
        "spec.controlPlaneEndpoint.port: Required value",
    ),
    "endpoint of port 0": (
        cluster(controlPlaneEndpoint={"host": "api.example.org", "port": 0}),
        "spec.controlPlaneEndpoint.port in body should be greater than or equal to 1",
    ),
}


def template(spec: Json, **metadata: Json) -> Json:
    return {"template": {"spec": spec} | ({"metadata": metadata} if metadata else {})}


@pytest.mark.parametrize("spec", GOOD_MACHINES.values(), ids=GOOD_MACHINES)
def test_good_machine(api: Apiserver, spec: Json) -> None:
    """What the guide shows is accepted."""
    assert api.create("VCOMachine", "m", spec).said == "accepted"


@pytest.mark.parametrize(("spec", "sentence"), BAD_MACHINES.values(), ids=BAD_MACHINES)
def test_bad_machine(api: Apiserver, spec: Json, sentence: str) -> None:
    """It is refused, by a sentence that names the field and says what is possible."""
    assert sentence in api.create("VCOMachine", "m", spec).said


@pytest.mark.parametrize("spec", GOOD_CLUSTERS.values(), ids=GOOD_CLUSTERS)
def test_good_cluster(api: Apiserver, spec: Json) -> None:
    """Both ways to say where, and all ways to have a cloudspace, are accepted."""
    assert api.create("VCOCluster", "c", spec).said == "accepted"


@pytest.mark.parametrize(("spec", "sentence"), BAD_CLUSTERS.values(), ids=BAD_CLUSTERS)
def test_bad_cluster(api: Apiserver, spec: Json, sentence: str) -> None:
    """It is refused, by a sentence that names the field and says what is possible."""
    assert sentence in api.create("VCOCluster", "c", spec).said


def test_good_templates(api: Apiserver) -> None:
    """Templates take the same specs, with labels for what is made from them."""
    labelled = template(machine(gpu=GPU), labels={"pool": "gpu"}, annotations={"note": "x"})
    assert api.create("VCOMachineTemplate", "m", labelled).said == "accepted"
    assert api.create("VCOClusterTemplate", "c", template(cluster())).said == "accepted"


def test_bad_templates(api: Apiserver) -> None:
    """Templates refuse the same specs, where they are written and not when a machine is made."""
    refused = api.create("VCOMachineTemplate", "m", template(gpu(type="A", driverVersion="new")))
    assert "spec.template.spec.gpu.driverVersion: Invalid value" in refused.said
    refused = api.create("VCOClusterTemplate", "c", template(CLUSTER))
    assert "say where the cluster lives" in refused.said


def test_template_with_an_identity(api: Apiserver) -> None:
    """All machines of a pool would have one providerID."""
    refused = api.create("VCOMachineTemplate", "m", template(machine(providerID="vco://a")))
    assert "spec.template.spec.providerID: Invalid value: providerID belongs to one" in refused.said


def test_defaults(api: Apiserver) -> None:
    """What is left out is written by the apiserver; a machine without GPU gets no GPU fields."""
    made = api.create("VCOMachine", "m", machine())
    assert made.part("spec") == {
        "imageID": 12,
        "vcpus": 2,
        "memoryMiB": 4096,
        "diskGiB": 50,
        "bootType": "bios",
        "installKubernetes": "IfMissing",
    }
    assert made.part("status") is None
    with_gpu = api.create("VCOMachine", "g", gpu(type="NVIDIA A100"))
    assert with_gpu.part("spec.gpu") == {"type": "NVIDIA A100", "count": 1}
    of_cluster = api.create("VCOCluster", "c", cluster())
    assert of_cluster.part("spec.identityRef") == {"kind": "Secret", "name": "vco-credentials"}
    assert of_cluster.part("spec.controlPlaneEndpoint") is None


def test_null_is_absence_for_fields_with_a_default(api: Apiserver) -> None:
    """A rendered template may have null where a variable was empty."""
    assert api.create("VCOMachine", "m", machine(vcpus=None)).part("spec.vcpus") == 2


def test_status_is_a_subresource(api: Apiserver) -> None:
    """A status in a created object is dropped; the controller writes it apart from the spec."""
    api.create("VCOMachine", "m", machine())
    written = api.patch_status("VCOMachine", "m", {"phase": "Running", "vmID": 7})
    assert written.part("status.vmID") == 7
    assert api.patch("VCOMachine", "m", {"status": {"vmID": 8}}).part("status.vmID") == 7


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            {"conditions": [{"type": "Ready", "status": "Yes", "reason": "A"}]},
            'status.conditions[0].status: Unsupported value: "Yes"',
        ),
        (
            {"conditions": [{"type": "Ready", "status": "True", "reason": "not one word"}]},
            "status.conditions[0].reason",
        ),
        ({"addresses": [{"type": "Pigeon", "address": "a"}]}, "status.addresses[0].type"),
        ({"gpus": [{"vgpuId": "a"}]}, "status.gpus[0].model: Required value"),
    ],
)
def test_bad_status(api: Apiserver, status: Json, sentence: str) -> None:
    """A status that Cluster API could not mirror is refused here, not there."""
    api.create("VCOMachine", "m", machine())
    assert sentence in api.patch_status("VCOMachine", "m", status).said


def test_two_managers_share_a_list(api: Apiserver) -> None:
    """Conditions and GPUs are told apart by their key, so an applier keeps what is another's."""
    api.create("VCOMachine", "m", machine())

    def gpus(identity: str) -> Json:
        item = {"vgpuId": identity, "name": "n", "profileId": "p", "model": "m", "attached": True}
        return {"status": {"gpus": [item]}}

    path = "m/status"
    api.apply("VCOMachine", path, gpus("a"), manager="one")
    both = api.apply("VCOMachine", path, gpus("b"), manager="two")
    assert [item["vgpuId"] for item in both.part("status.gpus")] == ["a", "b"]  # type: ignore[attr-defined] # a list of objects
