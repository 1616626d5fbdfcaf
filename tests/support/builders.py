"""Objects as tests want them: plain functions, every field with a sensible value.

Each returns a frozen struct; what a test is about is what it names in the call.
"""

from collections.abc import Mapping

from capvco.api.meta import Condition, ConditionStatus, ObjectMeta, OwnerReference
from capvco.api.upstream import (
    CLUSTER_GROUP,
    CLUSTER_NAME_LABEL,
    CONTROL_PLANE_LABEL,
    PAUSED_ANNOTATION,
    Bootstrap,
    Cluster,
    ClusterInitialization,
    ClusterSpec,
    ClusterStatus,
    Endpoint,
    Machine,
    MachineSpec,
    Reference,
    Secret,
)
from capvco.api.v1beta1 import GROUP
from capvco.api.v1beta1.cluster import (
    CloudspaceSpec,
    ControlPlaneEndpoint,
    IdentityRef,
    Initialization,
    Site,
    SiteStatus,
    VCOCluster,
    VCOClusterSpec,
    VCOClusterStatus,
)
from capvco.api.v1beta1.machine import (
    BootType,
    GPURequest,
    GPUStatus,
    MachineAddress,
    VCOMachine,
    VCOMachineSpec,
    VCOMachineStatus,
)
from capvco.api.v1beta1.templates import (
    VCOMachineTemplate,
    VCOMachineTemplateResource,
    VCOMachineTemplateSpec,
    VCOMachineTemplateStatus,
)
from capvco.services.record import Record, Slot
from capvco.vco.models import VGPU, GPUProfile, VMRef

NAMESPACE = "default"
CLUSTER = "prod"
LOCATION = "be-g8-4"
CLOUDSPACE = "cs-1"
CREATED = "2026-01-01T00:00:00Z"
DELETED = "2026-01-02T00:00:00Z"


def a_meta(
    name: str,
    *,
    namespace: str = NAMESPACE,
    uid: str = "",
    owner: OwnerReference | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    paused: bool = False,
    deleting: bool = False,
    generation: int = 1,
    resource_version: str = "1",
) -> ObjectMeta:
    """Make metadata as the API server gives it."""
    noted = {PAUSED_ANNOTATION: ""} if paused else {}
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        resource_version=resource_version,
        generation=generation,
        creation_timestamp=CREATED,
        deletion_timestamp=DELETED if deleting else None,
        labels=dict(labels or {}),
        annotations={**noted, **(annotations or {})},
        finalizers=finalizers,
        owner_references=(owner,) if owner else (),
    )


def an_owner(kind: str, name: str, *, version: str = "v1beta2") -> OwnerReference:
    """Make a Cluster API object as the owner of another one."""
    return OwnerReference(
        api_version=f"{CLUSTER_GROUP}/{version}",
        kind=kind,
        name=name,
        uid=f"uid-{name}",
        controller=True,
    )


def a_condition(
    type_: str = "Ready",
    status: ConditionStatus = "True",
    reason: str = "Ready",
    message: str = "",
    *,
    since: str = CREATED,
    generation: int | None = 1,
) -> Condition:
    """Make a condition as it is stored."""
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )


def a_cluster(
    name: str = CLUSTER,
    *,
    namespace: str = NAMESPACE,
    paused: bool = False,
    infrastructure: str | None = None,
    infrastructure_provisioned: bool = True,
    control_plane_initialized: bool = True,
    endpoint: Endpoint | None = None,
    deleting: bool = False,
) -> Cluster:
    """Make a Cluster; ``infrastructure`` names its VCOCluster, empty for none yet."""
    infrastructure = name if infrastructure is None else infrastructure
    reference = Reference(kind="VCOCluster", name=infrastructure, api_group=GROUP)
    return Cluster(
        metadata=a_meta(name, namespace=namespace, deleting=deleting),
        spec=ClusterSpec(
            paused=paused,
            infrastructure_ref=reference if infrastructure else None,
            control_plane_endpoint=endpoint,
        ),
        status=ClusterStatus(
            ClusterInitialization(
                infrastructure_provisioned=infrastructure_provisioned,
                control_plane_initialized=control_plane_initialized,
            )
        ),
    )


def a_machine(
    name: str = "worker-1",
    *,
    namespace: str = NAMESPACE,
    cluster: str = CLUSTER,
    control_plane: bool = False,
    bootstrap_secret: str | None = "bootstrap",
    infrastructure: Reference | None = None,
    failure_domain: str = "",
    provider_id: str = "",
    deleting: bool = False,
) -> Machine:
    """Make a Machine of a VCOMachine of the same name, unless ``infrastructure`` says otherwise."""
    labels = {CLUSTER_NAME_LABEL: cluster}
    if control_plane:
        labels[CONTROL_PLANE_LABEL] = ""
    return Machine(
        metadata=a_meta(name, namespace=namespace, labels=labels, deleting=deleting),
        spec=MachineSpec(
            cluster_name=cluster,
            bootstrap=Bootstrap(data_secret_name=bootstrap_secret),
            infrastructure_ref=infrastructure
            or Reference(kind="VCOMachine", name=name, api_group=GROUP),
            failure_domain=failure_domain,
            provider_id=provider_id,
        ),
    )


def a_secret(name: str = "bootstrap", *, data: Mapping[str, bytes] | None = None) -> Secret:
    """Make a Secret with decoded values."""
    return Secret(metadata=a_meta(name), data=dict(data or {}))


def a_site(
    name: str = LOCATION,
    *,
    location: str | None = None,
    external_network_id: int = 7,
    image_id: int | None = None,
) -> Site:
    """Make a site, named as its location unless that is given."""
    return Site(
        name=name,
        location=location or name,
        external_network_id=external_network_id,
        image_id=image_id,
    )


def a_vco_cluster(
    name: str = CLUSTER,
    *,
    namespace: str = NAMESPACE,
    location: str = LOCATION,
    sites: tuple[Site, ...] = (),
    cloudspace: CloudspaceSpec | None = None,
    endpoint: ControlPlaneEndpoint | None = None,
    cloudspace_id: str | None = CLOUDSPACE,
    provisioned: bool = True,
    identity: str = "vco-credentials",
    annotations: Mapping[str, str] | None = None,
    paused: bool = False,
    deleting: bool = False,
    status: VCOClusterStatus | None = None,
) -> VCOCluster:
    """Make a VCOCluster of one site, its cloudspace there; ``sites`` replaces ``location``."""
    spec = VCOClusterSpec(
        identity_ref=IdentityRef(name=identity),
        location=None if sites else location,
        external_network_id=None if sites else 7,
        sites=sites or None,
        cloudspace=cloudspace,
        control_plane_endpoint=endpoint,
    )
    found = SiteStatus(name=spec.all_sites[0].name, cloudspace_id=cloudspace_id)
    return VCOCluster(
        metadata=a_meta(
            name,
            namespace=namespace,
            owner=an_owner("Cluster", name),
            annotations=annotations,
            paused=paused,
            deleting=deleting,
        ),
        spec=spec,
        status=status
        or VCOClusterStatus(
            initialization=Initialization(provisioned=True) if provisioned else None,
            sites=(found,),
        ),
    )


def a_gpu_request(
    type_: str | None = "NVIDIA A100",
    *,
    profile_id: str | None = None,
    count: int = 1,
    driver_version: str = "",
) -> GPURequest:
    """Make a request by type, or by ``profile_id``."""
    return GPURequest(
        type=None if profile_id else type_,
        profile_id=profile_id,
        count=count,
        driver_version=driver_version,
    )


def a_machine_spec(
    *,
    gpu: GPURequest | None = None,
    image_id: int = 11,
    vcpus: int = 2,
    memory_mib: int = 4096,
    disk_gib: int = 50,
    boot_type: BootType = "bios",
    provider_id: str | None = None,
) -> VCOMachineSpec:
    """Make the spec of a VCOMachine."""
    return VCOMachineSpec(
        provider_id=provider_id,
        image_id=image_id,
        vcpus=vcpus,
        memory_mib=memory_mib,
        disk_gib=disk_gib,
        boot_type=boot_type,
        gpu=gpu,
    )


def a_vco_machine(
    name: str = "worker-1",
    *,
    namespace: str = NAMESPACE,
    cluster: str = CLUSTER,
    gpu: GPURequest | None = None,
    spec: VCOMachineSpec | None = None,
    owner: OwnerReference | None = None,
    owned: bool = True,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    provider_id: str | None = None,
    paused: bool = False,
    deleting: bool = False,
    status: VCOMachineStatus | None = None,
) -> VCOMachine:
    """Make a VCOMachine owned by the Machine of its name; ``spec`` replaces ``gpu``."""
    return VCOMachine(
        metadata=a_meta(
            name,
            namespace=namespace,
            uid=uid,
            owner=(owner or an_owner("Machine", name)) if owned else None,
            labels={CLUSTER_NAME_LABEL: cluster, **(labels or {})},
            annotations=annotations,
            finalizers=finalizers,
            paused=paused,
            deleting=deleting,
        ),
        spec=spec or a_machine_spec(gpu=gpu, provider_id=provider_id),
        status=status or VCOMachineStatus(),
    )


def a_provisioned_status(
    *, vm_id: int = 1, address: str = "192.168.0.2", gpus: tuple[GPUStatus, ...] = ()
) -> VCOMachineStatus:
    """Make the status of a VCOMachine whose VM runs."""
    return VCOMachineStatus(
        initialization=Initialization(provisioned=True),
        phase="Running",
        addresses=(MachineAddress(type="InternalIP", address=address),),
        failure_domain=LOCATION,
        location=LOCATION,
        cloudspace_id=CLOUDSPACE,
        vm_id=vm_id,
        gpus=gpus,
    )


def a_template(
    name: str = "workers",
    *,
    spec: VCOMachineSpec | None = None,
    status: VCOMachineTemplateStatus | None = None,
    deleting: bool = False,
) -> VCOMachineTemplate:
    """Make a VCOMachineTemplate."""
    return VCOMachineTemplate(
        metadata=a_meta(name, deleting=deleting),
        spec=VCOMachineTemplateSpec(
            template=VCOMachineTemplateResource(spec=spec or a_machine_spec())
        ),
        status=status or VCOMachineTemplateStatus(),
    )


def a_profile(
    id_: str = "card-1",
    *,
    vendor: str = "NVIDIA",
    model: str = "A100-SXM4-80GB 0000:3b:00.0",
    free: int = 1,
    description: str = "",
) -> GPUProfile:
    """Make a GPU profile: one card of a location."""
    return GPUProfile(
        id=id_, vendor=vendor, model=model, description=description, available_instances=free
    )


def a_vgpu(
    id_: str = "vgpu-1",
    *,
    name: str = "capvco-worker-1-gpu-0",
    profile: str = "card-1",
    vm: VMRef | None = None,
    in_bin: bool = False,
    location: str = LOCATION,
) -> VGPU:
    """Make a reservation as the platform lists it, attached to ``vm``."""
    return VGPU(
        vgpu_id=id_,
        vgpu_name=name,
        gpu_id=profile,
        status="ATTACHED" if vm else "AVAILABLE",
        virtual_machine=vm,
        deletion_time=1_700_000_000 if in_bin else 0,
        location=location,
    )


def a_vm_ref(id_: int = 1, *, name: str = "worker-1", cloudspace: str = CLOUDSPACE) -> VMRef:
    """Make the VM that a vGPU hangs on."""
    return VMRef(id=id_, name=name, cloudspace_id=cloudspace)


def a_gpu_status(
    vgpu_id: str = "vgpu-1",
    *,
    name: str = "capvco-worker-1-gpu-0",
    profile_id: str = "card-1",
    model: str = "NVIDIA A100-SXM4-80GB",
    attached: bool = True,
) -> GPUStatus:
    """Make one entry of status.gpus."""
    return GPUStatus(
        vgpu_id=vgpu_id, name=name, profile_id=profile_id, model=model, attached=attached
    )


def a_slot(
    name: str = "capvco-worker-1-gpu-0",
    *,
    vgpu_id: str = "vgpu-1",
    profile_id: str = "card-1",
    model: str = "NVIDIA A100-SXM4-80GB",
    at: float = 1000.0,
) -> Slot:
    """Make one vGPU of a record; an empty ``vgpu_id`` is an attempt without a known outcome."""
    return Slot(name=name, vgpu_id=vgpu_id, profile_id=profile_id, model=model, at=at)


def a_record(
    *gpus: Slot,
    owner: str = "uid-worker-1",
    customer: str = "customer-1",
    identity: str = "vco-credentials",
    lost: tuple[str, ...] = (),
    vm_at: float = 0.0,
    location: str = LOCATION,
    cloudspace_id: str = CLOUDSPACE,
) -> Record:
    """Make the durable record of a machine."""
    return Record(
        owner=owner,
        customer=customer,
        identity=identity,
        gpus=gpus,
        lost=lost,
        vm_at=vm_at,
        location=location,
        cloudspace_id=cloudspace_id,
    )
