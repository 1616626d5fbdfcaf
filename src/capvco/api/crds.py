"""The CustomResourceDefinitions of CAPVCO, generated from its types."""

from msgspec import Struct

from capvco.api.policies import Manifest, cluster_rules, machine_rules
from capvco.api.rules import Rule
from capvco.api.schema import kind_schema, struct_fields
from capvco.api.v1beta1 import GROUP, VERSION
from capvco.api.v1beta1.cluster import VCOCluster
from capvco.api.v1beta1.machine import VCOMachine
from capvco.api.v1beta1.templates import VCOClusterTemplate, VCOMachineTemplate

CONTRACT_LABEL = "cluster.x-k8s.io/v1beta2"
PROVIDER_LABEL = "cluster.x-k8s.io/provider"
PROVIDER = "infrastructure-vco"

_WIDE = 1
_CLUSTER_NAME = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']"


class Column(Struct, frozen=True):
    """A column of ``kubectl get``; priority 1 shows it with ``-o wide`` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    priority: int = 0


class Definition(Struct, frozen=True):
    """What a kind has besides its type."""

    type: type[Struct]
    short_name: str
    columns: tuple[Column, ...]
    spec_rules: tuple[Rule, ...] = ()

    @property
    def kind(self) -> str:
        """The kind, in CamelCase."""
        return self.type.__name__

    @property
    def plural(self) -> str:
        """The plural: Cluster API finds our kinds by the regular one."""
        return f"{self.kind.lower()}s"


def definitions() -> tuple[Definition, ...]:
    """Return the kinds of CAPVCO."""
    return (
        Definition(VCOCluster, "vcoc", _cluster_columns(), cluster_rules()),
        Definition(VCOClusterTemplate, "vcoct", (_age(),)),
        Definition(VCOMachine, "vcom", _machine_columns(), machine_rules()),
        Definition(VCOMachineTemplate, "vcomt", _machine_template_columns()),
    )


def crds() -> list[Manifest]:
    """Return the manifests of all CRDs."""
    return [_crd(definition) for definition in definitions()]


def _crd(definition: Definition) -> Manifest:
    names = {
        "categories": ["cluster-api"],
        "kind": definition.kind,
        "listKind": f"{definition.kind}List",
        "plural": definition.plural,
        "shortNames": [definition.short_name],
        "singular": definition.kind.lower(),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{definition.plural}.{GROUP}",
            "labels": {PROVIDER_LABEL: PROVIDER, CONTRACT_LABEL: VERSION},
        },
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [_version(definition)],
        },
    }


def _version(definition: Definition) -> Manifest:
    version: Manifest = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": kind_schema(definition.type, definition.spec_rules)},
        "additionalPrinterColumns": [_printer_column(column) for column in definition.columns],
    }
    if any(field.name == "status" for field in struct_fields(definition.type)):
        version["subresources"] = {"status": {}}
    return version


def _printer_column(column: Column) -> Manifest:
    shown: Manifest = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return shown | {"priority": column.priority} if column.priority else shown


def _cluster_columns() -> tuple[Column, ...]:
    return (
        Column("Cluster", _CLUSTER_NAME, "Cluster that the object belongs to"),
        Column("Location", ".spec.location", "Location of the platform"),
        Column("Endpoint", ".spec.controlPlaneEndpoint.host", "Host of the control plane"),
        _provisioned(),
        *_readiness(),
        Column(
            "Cloudspace",
            ".status.sites[0].cloudspaceID",
            "Cloudspace of the first site",
            priority=_WIDE,
        ),
        _paused(),
        _age(),
    )


def _machine_columns() -> tuple[Column, ...]:
    return (
        Column("Cluster", _CLUSTER_NAME, "Cluster that the machine belongs to"),
        Column("GPU type", ".spec.gpu.type", "GPU type that was asked for"),
        Column("GPUs", ".spec.gpu.count", "Number of GPUs", type="integer"),
        Column("Model", ".status.gpus[0].model", "Model of the GPUs that the machine holds"),
        Column("Phase", ".status.phase", "What the machine is doing"),
        *_readiness(),
        Column(
            "Machine",
            ".metadata.ownerReferences[?(@.kind=='Machine')].name",
            "Machine that owns this VCOMachine",
            priority=_WIDE,
        ),
        Column(
            "Internal IP",
            ".status.addresses[?(@.type=='InternalIP')].address",
            "Address in the cloudspace",
            priority=_WIDE,
        ),
        Column("Location", ".status.location", "Location of the platform", priority=_WIDE),
        Column("VM", ".status.vmID", "Id of the VM", type="integer", priority=_WIDE),
        Column("vGPU", ".status.gpus[0].vgpuId", "Id of the first reservation", priority=_WIDE),
        Column("Provider ID", ".spec.providerID", "Identity for Kubernetes", priority=_WIDE),
        _paused(),
        _age(),
    )


def _machine_template_columns() -> tuple[Column, ...]:
    spec = ".spec.template.spec"
    return (
        Column("GPU type", f"{spec}.gpu.type", "GPU type that is asked for"),
        Column("GPUs", f"{spec}.gpu.count", "Number of GPUs", type="integer"),
        Column("vCPUs", f"{spec}.vcpus", "Virtual CPUs", type="integer"),
        Column("Memory", f"{spec}.memoryMiB", "Memory in MiB", type="integer"),
        Column("Disk", f"{spec}.diskGiB", "Boot disk in GiB", type="integer", priority=_WIDE),
        Column("Image", f"{spec}.imageID", "Id of the image", type="integer", priority=_WIDE),
        Column("Driver", f"{spec}.gpu.driverVersion", "Driver branch", priority=_WIDE),
        _age(),
    )


def _readiness() -> tuple[Column, ...]:
    ready = ".status.conditions[?(@.type=='Ready')]"
    return (
        Column("Ready", f"{ready}.status", "Whether all is as wanted"),
        Column("Reason", f"{ready}.reason", "Why it is or is not ready"),
        Column("Message", f"{ready}.message", "What a person should know", priority=_WIDE),
    )


def _provisioned() -> Column:
    path = ".status.initialization.provisioned"
    return Column("Provisioned", path, "Whether the infrastructure exists", priority=_WIDE)


def _paused() -> Column:
    path = ".status.conditions[?(@.type=='Paused')].status"
    return Column("Paused", path, "Whether reconciliation is paused", priority=_WIDE)


def _age() -> Column:
    return Column("Age", ".metadata.creationTimestamp", "Time since creation", type="date")
