"""Labels of nodes in a real second API server: put back by themselves, at nobody's cost."""

import json
import string
from collections.abc import Iterator, Mapping

import pytest

from capvco.api.v1beta1 import FAILURE_DOMAIN_LABEL, GPU_MODEL_LABEL
from capvco.controllers.node_labels import MANAGER
from capvco.services.labels import ACCELERATOR_LABEL, REGION_LABEL, ZONE_LABEL, slug
from kubelocal import KubectlError
from tests.envtest.addon.workload import Workload, put_cluster
from tests.support.scenario import LOCATION, Scenario, condition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
L4 = {"type": "NVIDIA L4", "count": 1}
PLACE = {FAILURE_DOMAIN_LABEL: LOCATION, ZONE_LABEL: LOCATION, REGION_LABEL: LOCATION}
WANTED = {GPU_MODEL_LABEL: "nvidia-l4", ACCELERATOR_LABEL: "nvidia-l4"} | PLACE
POLICY = "no-zones"


def up(scenario: Scenario, workload: Workload, name: str = "worker", gpu: object = None) -> str:
    """Bring up a machine in a cluster that is there, or is made; return its provider id."""
    if scenario.get("clusters", "demo") is None:
        put_cluster(scenario, "demo", "nvidia", workload.cluster)
    if gpu:
        scenario.put_machine(name, gpu=gpu)
    else:
        scenario.put_machine(name)
    scenario.until("the machine", lambda: scenario.running(name))
    return str(scenario.vco_machine(name)["spec"]["providerID"])


def has(workload: Workload, name: str, labels: Mapping[str, str | None]) -> bool:
    """Say whether a node has these labels, and none of those that are None."""
    found = workload.labels(name)
    return all(found.get(key) == value for key, value in labels.items())


def label(workload: Workload, name: str, *changes: str) -> None:
    """Change labels of a node by hand."""
    workload.cluster.kubectl("label", "node", name, "--overwrite", *changes)


def ours(workload: Workload, name: str) -> set[str]:
    """Return the labels of a node that were last set by us."""
    managed = workload.cluster.read(f"/api/v1/nodes/{name}")["metadata"]["managedFields"]
    fields = [m["fieldsV1"]["f:metadata"]["f:labels"] for m in managed if m["manager"] == MANAGER]
    return {key.removeprefix("f:") for one in fields for key in one if key != "."}


def put_back(scenario: Scenario, *nodes: str) -> list[int]:
    """How often labels of each node were put back."""
    told = [line for line in scenario.log.read_text().splitlines() if "labels put back" in line]
    return [sum(name in line for line in told) for name in nodes]


def test_what_is_missing_comes_back(managed: Scenario, workload: Workload) -> None:
    """Whoever took it away; others' labels, and others' values of shared ones, stay.

    A node on which nothing is missing is not written to.
    """
    first, second = (up(managed, workload, name, gpu=L4) for name in ("first", "second"))
    workload.join("node-1", first)
    workload.join("node-2", second)
    managed.until("the labels", lambda: has(workload, "node-1", WANTED))
    managed.until("the others", lambda: has(workload, "node-2", WANTED))
    assert ours(workload, "node-1") == set(WANTED)
    assert put_back(managed, "node-1", "node-2") == [1, 1]

    theirs = {"team": "blue", ZONE_LABEL: "rack-7", ACCELERATOR_LABEL: "mine"}
    said = [f"{key}={value}" for key, value in theirs.items()]
    label(workload, "node-1", f"{GPU_MODEL_LABEL}=wrong", f"{REGION_LABEL}-", *said)
    expected = WANTED | theirs
    managed.until("the labels again", lambda: has(workload, "node-1", expected))
    label(workload, "node-1", *(f"{key}-" for key in WANTED))
    managed.until("all of them", lambda: has(workload, "node-1", WANTED | {"team": "blue"}))
    assert put_back(managed, "node-1", "node-2") == [3, 1]


def test_a_cluster_without_gpus(managed: Scenario, workload: Workload) -> None:
    """Its nodes say where they are, and nothing of a GPU; strangers' nodes are left alone."""
    provider_id = up(managed, workload)
    workload.join("stranger", "vco://elsewhere/1")
    workload.join("plain", provider_id)
    absent = dict.fromkeys((GPU_MODEL_LABEL, ACCELERATOR_LABEL))
    managed.until("the labels", lambda: has(workload, "plain", PLACE | absent))
    assert has(workload, "stranger", dict.fromkeys(WANTED))
    assert not condition(managed.vco_machine("worker"), "GPUReady")


def test_paused_machines(managed: Scenario, workload: Workload) -> None:
    """Nothing is written for them, and what is missing comes back afterwards."""
    provider_id = up(managed, workload, gpu=L4)
    up(managed, workload, "going", gpu=L4)
    annotation = "cluster.x-k8s.io/paused"
    resource = ("annotate", "vcomachines.infrastructure.cluster.x-k8s.io", "worker")
    managed.kubectl(*resource, f"{annotation}=")
    managed.until(
        "the pause",
        lambda: condition(managed.vco_machine("worker"), "Paused").get("status") == "True",
    )
    workload.join("node-1", provider_id)
    workload.join("node-2", str(managed.vco_machine("going")["spec"]["providerID"]))
    managed.until("the other node", lambda: has(workload, "node-2", WANTED))
    assert has(workload, "node-1", dict.fromkeys(WANTED))
    managed.kubectl(*resource, f"{annotation}-")
    managed.until("the labels", lambda: has(workload, "node-1", WANTED))


@pytest.fixture
def _no_zones(workload: Workload) -> Iterator[None]:
    """Let the workload cluster refuse every node that says in which zone it is."""
    rule = {
        "expression": f"!('{ZONE_LABEL}' in object.metadata.?labels.orValue({{}}))",
        "message": "no zones here",
    }
    group = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}
    kind, version = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    meta = {"name": POLICY}
    policy = {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta,
        "spec": {
            "matchConstraints": {"resourceRules": [group | {"operations": ["UPDATE"]}]},
            "validations": [rule],
        },
    }
    spec = {"policyName": POLICY, "validationActions": ["Deny"]}
    binding = {"apiVersion": version, "kind": f"{kind}Binding", "metadata": meta, "spec": spec}
    text = "\n---\n".join(json.dumps(one) for one in (policy, binding))
    workload.cluster.apply(text)
    yield
    workload.cluster.kubectl("delete", kind, POLICY)
    workload.cluster.kubectl("delete", f"{kind}Binding", POLICY)


@pytest.mark.usefixtures("_no_zones")
def test_a_label_that_is_refused(managed: Scenario, workload: Workload) -> None:
    """It is said once, and costs the node no other."""
    provider_id = up(managed, workload, gpu=L4)
    workload.join("witness", "vco://elsewhere/1")

    def refuses() -> bool:
        try:
            label(workload, "witness", f"{ZONE_LABEL}=x")
        except KubectlError as error:
            return "no zones here" in str(error)
        label(workload, "witness", f"{ZONE_LABEL}-")
        return False

    managed.until("the policy", refuses)
    workload.join("node-1", provider_id)
    rest = WANTED | {ZONE_LABEL: None}
    managed.until("the others", lambda: has(workload, "node-1", rest))
    label(workload, "node-1", f"{GPU_MODEL_LABEL}-")
    managed.until("it again", lambda: has(workload, "node-1", rest))
    told = managed.log.read_text().splitlines()
    (line,) = [one for one in told if "refuses a label" in one]
    assert f"{ZONE_LABEL}={LOCATION}" in line
    assert "no zones here" in line


def test_slugs_of_anything(workload: Workload) -> None:
    """A real API server takes every one of them as a label, whatever the model is called."""
    models = [
        *string.printable, "", "日本", "Ünïcode", "-" * 99, "x" * 63, "x" * 64, "_." * 40,
        "NVIDIA A100 " * 9, "A" * 53 + "-b" * 9, "Dummy Dummy GPU", "\ud800", "a/b=c,d",
    ]  # fmt: skip
    maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"slug-{number}", "labels": {GPU_MODEL_LABEL: slug(model)}},
        }
        for number, model in enumerate(models)
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": maps})
    namespace = workload.cluster.create_namespace("slugs")
    workload.cluster.kubectl("-n", namespace, "apply", "--server-side", "-f", "-", input=text)
    found = workload.cluster.read(
        f"/api/v1/namespaces/{namespace}/configmaps?labelSelector={GPU_MODEL_LABEL}"
    )
    assert len(found["items"]) == len(models)
    assert all(o["metadata"]["labels"][GPU_MODEL_LABEL] for o in found["items"])
