"""The release assets are complete, reproducible and what clusterctl expects."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from msgspec import Struct, convert

from capvco import settings
from capvco.api.crds import definitions
from capvco.api.policies import Manifest
from capvco.api.schema import kind_schema
from capvco.release.build import (
    COMPONENTS,
    FLAVORS,
    GPU_ADDON,
    METADATA,
    BadVersion,
    assets,
    main,
)
from capvco.release.components import ARGUMENTS, HEALTH_PORT, METRICS_PORT

VERSION = "v0.1.0"
CLUSTERCTL = {"CLUSTER_NAME", "KUBERNETES_VERSION", "CONTROL_PLANE_MACHINE_COUNT"} | {
    "WORKER_MACHINE_COUNT"
}
PLACE = {"VCO_LOCATION", "VCO_IMAGE_ID", "VCO_EXTNET_ID"}
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::=([^}]*))?\}")
VALUES = {
    "CLUSTER_NAME": "gpu-demo",
    "KUBERNETES_VERSION": "v1.35.8",
    "CONTROL_PLANE_MACHINE_COUNT": "1",
    "WORKER_MACHINE_COUNT": "1",
    "VCO_LOCATION": "be-g8-4",
    "VCO_IMAGE_ID": "12",
    "VCO_EXTNET_ID": "5",
    "VCO_GPU_TYPE": "NVIDIA A100",
    "VCO_GPU_COUNT": "1",
}


class Named(Struct, frozen=True):
    """The parts of metadata that the assets have."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}


def documents(text: str) -> list[Manifest]:
    return convert(list(yaml.safe_load_all(text)), list[Manifest])


def metadata(manifest: Manifest) -> Named:
    return convert(manifest["metadata"], Named)


def render(flavor: str, **values: str) -> list[Manifest]:
    """Render a flavor as envsubst does."""
    known = VALUES | values
    text = VARIABLE.sub(
        lambda found: known.get(found[1]) or found[2] or "", assets(VERSION)[flavor]
    )
    return documents(text)


def required(flavor: str) -> set[str]:
    return {found[1] for found in VARIABLE.finditer(assets(VERSION)[flavor]) if found[2] is None}


def worker(flavor: str, **values: str) -> Manifest:
    """Return the spec of the workers' machine template."""
    templates = [doc for doc in render(flavor, **values) if doc["kind"] == "VCOMachineTemplate"]
    spec = convert(templates[-1]["spec"], dict[str, dict[str, Manifest]])
    return spec["template"]["spec"]


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    """Two processes with other hash seeds write the same files."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        command = [sys.executable, "-m", "capvco.release.build", "--output", str(folder)]
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        subprocess.run([*command, "--version", VERSION], check=True, env=environment, timeout=50)
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert sorted(one) == sorted([COMPONENTS, METADATA, GPU_ADDON, *FLAVORS])
    assert one == two


@pytest.mark.parametrize("version", ["0.1.0", "v0.1", "v01.1.0", "latest", "v0.1.0 "])
def test_a_version_that_is_none(version: str) -> None:
    """The error shows how a version is written."""
    with pytest.raises(BadVersion, match=r"write v, major\.minor\.patch: v0\.1\.0"):
        assets(version)


def test_a_version_without_a_series() -> None:
    """Clusterctl refuses such a version at installation: it is refused when it is built."""
    with pytest.raises(BadVersion, match=r"no release series for v7\.3\.0.*it has v0\.1"):
        assets("v7.3.0")


def test_the_command_refuses_a_bad_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with status 2, says why, and writes nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["--output", str(tmp_path / "dist"), "--version", "nonsense"])
    assert ended.value.code == 2
    assert '"nonsense" is not a release version' in capsys.readouterr().err
    assert list((tmp_path / "dist").glob("*")) == []


def test_components_need_no_variable() -> None:
    """Clusterctl substitutes variables in the components too, so none may be there by accident."""
    text = assets(VERSION)[COMPONENTS]
    assert "${" not in text
    assert "$$" not in text


def test_components_carry_the_provider_label() -> None:
    """Clusterctl finds what it installed by this label."""
    components = documents(assets(VERSION)[COMPONENTS])
    labels = {metadata(item).labels.get("cluster.x-k8s.io/provider") for item in components}
    assert labels == {"infrastructure-vco"}


def test_components_have_one_namespace() -> None:
    """There is one Namespace, it comes first, and all namespaced objects are in it."""
    components = documents(assets(VERSION)[COMPONENTS])
    assert [item["kind"] for item in components].count("Namespace") == 1
    assert components[0]["kind"] == "Namespace"
    assert {metadata(item).namespace for item in components} == {"", "capvco-system"}


def test_components_are_each_there_once() -> None:
    """No object is written twice."""
    keys = [(item["kind"], metadata(item).name) for item in documents(assets(VERSION)[COMPONENTS])]
    assert len(keys) == len(set(keys))


def test_deployment() -> None:
    """Clusterctl waits for the container called manager; it runs the version, unprivileged."""
    (deployment,) = [
        item for item in documents(assets(VERSION)[COMPONENTS]) if item["kind"] == "Deployment"
    ]
    pod = convert(deployment["spec"], dict[str, object])["template"]
    spec = convert(pod, dict[str, Manifest])["spec"]
    (container,) = convert(spec["containers"], list[Manifest])
    assert container["name"] == "manager"
    assert container["image"] == f"ghcr.io/capvco/cluster-api-provider-vco:{VERSION}"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    assert convert(spec["securityContext"], Manifest)["runAsNonRoot"] is True
    assert spec["serviceAccountName"] == "capvco-manager"


def test_deployment_speaks_the_language_of_the_manager() -> None:
    """The manager knows each flag, and serves where the probes ask."""
    given = settings.parse(ARGUMENTS)
    assert given.leader_elect is True
    assert given.health_addr == f":{HEALTH_PORT}"
    assert given.diagnostics_address == f":{METRICS_PORT}"


def test_metadata_names_the_contract() -> None:
    """The series of the release follows the contract of the CRD label."""
    (series,) = [doc["releaseSeries"] for doc in documents(assets(VERSION)[METADATA])]
    assert series == [{"major": 0, "minor": 1, "contract": "v1beta2"}]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_dollar_belongs_to_a_variable(flavor: str) -> None:
    """Anything else that envsubst sees after a dollar would be taken for a variable."""
    assert "$" not in VARIABLE.sub("", assets(VERSION)[flavor])


def test_default_flavor_asks_for_the_place_only() -> None:
    """All else has a default, or comes from clusterctl."""
    assert required("cluster-template.yaml") == CLUSTERCTL | PLACE


def test_gpu_flavor_asks_for_the_gpu_besides() -> None:
    """The driver branch may be left out."""
    gpu = {"VCO_GPU_TYPE", "VCO_GPU_COUNT"}
    assert required("cluster-template-gpu.yaml") == CLUSTERCTL | PLACE | gpu
    assert "VCO_GPU_DRIVER_VERSION" in assets(VERSION)["cluster-template-gpu.yaml"]


@pytest.mark.parametrize(
    ("branch", "expected"), [("550", "550"), ("580-open", "580-open"), ("", "")]
)
def test_driver_branch_is_a_string(branch: str, expected: str) -> None:
    """A bare 550 in YAML would be a number, which the API refuses."""
    gpu = worker("cluster-template-gpu.yaml", VCO_GPU_DRIVER_VERSION=branch)["gpu"]
    assert convert(gpu, Manifest)["driverVersion"] == expected


@pytest.mark.parametrize("type_", ["NVIDIA A100", "0x27b8", "Dummy GPU 0000:f1:e1.0", "null"])
def test_gpu_type_is_a_string(type_: str) -> None:
    """A model such as 0x27b8 would be a number in YAML."""
    gpu = worker("cluster-template-gpu.yaml", VCO_GPU_TYPE=type_)["gpu"]
    assert convert(gpu, Manifest)["type"] == type_


@pytest.mark.parametrize("flavor", FLAVORS)
def test_flavors_fit_the_schemas(flavor: str) -> None:
    """Every object of ours in a flavor is valid, and has nothing that would be pruned."""
    schemas = {item.kind: kind_schema(item.type) for item in definitions()}
    ours = [item for item in render(flavor) if item["kind"] in schemas]
    assert len(ours) == 3
    for item in ours:
        jsonschema.validate(item, closed(schemas[str(item["kind"])]))


def closed(schema: Manifest) -> Manifest:
    """Forbid unknown fields in a schema, except in the metadata."""
    if "properties" not in schema:
        return schema
    children = convert(schema["properties"], dict[str, Manifest])
    return schema | {
        "properties": {name: closed(child) for name, child in children.items()},
        "additionalProperties": False,
    }


@pytest.mark.parametrize("flavor", FLAVORS)
def test_flavors_have_the_same_shape(flavor: str) -> None:
    """Cluster, control plane and one pool, in an order in which each finds what it refers to."""
    kinds = [item["kind"] for item in render(flavor)]
    assert kinds[:7] == [
        "Cluster",
        "VCOCluster",
        "KubeadmControlPlane",
        "VCOMachineTemplate",
        "MachineDeployment",
        "VCOMachineTemplate",
        "KubeadmConfigTemplate",
    ]
    assert kinds[7:] == (["ConfigMap", "ClusterResourceSet"] if "gpu" in flavor else [])


@pytest.mark.parametrize(("addon", "label"), [("", "nvidia"), ("none", "none")])
def test_gpu_flavor_asks_for_the_add_on(addon: str, label: str) -> None:
    """The label on the Cluster brings the device plugin, unless it says none."""
    cluster = render("cluster-template-gpu.yaml", VCO_GPU_ADDON=addon)[0]
    assert metadata(cluster).labels == {"capvco.infrastructure.cluster.x-k8s.io/gpu": label}


def test_gpu_pool_gives_up_a_card_before_it_wants_one() -> None:
    """Every card may be taken: a rollout that first makes a machine would wait for ever."""
    pool = next(
        item for item in render("cluster-template-gpu.yaml") if item["kind"] == "MachineDeployment"
    )
    strategy = convert(pool["spec"], Manifest)["rollout"]
    assert strategy == {
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        }
    }
