"""Condition types and reasons: the whole vocabulary in which CAPVCO explains itself.

Each reason's docstring has two parts: what it means, and after ``Cure:`` what a person does about
it. The troubleshooting page is generated from here.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """What CAPVCO reports on its objects."""

    READY = "Ready"
    """Everything below is as wanted; mirrored by Cluster API."""

    PAUSED = "Paused"
    """Reconciliation is paused: nothing is done in the cloud, deletion included."""

    CLOUDSPACE_READY = "CloudspaceReady"
    """VCOCluster: the cloudspace exists and is deployed."""

    CONTROL_PLANE_ENDPOINT_READY = "ControlPlaneEndpointReady"
    """VCOCluster: a server pool and a layer-4 load balancer serve the control-plane endpoint."""

    GPU_RESERVED = "GPUReserved"
    """VCOMachine: all requested vGPUs are reserved. Absent where no GPU is requested."""

    VM_PROVISIONED = "VMProvisioned"
    """VCOMachine: the virtual machine exists, is started and has an address."""

    GPU_ATTACHED = "GPUAttached"
    """VCOMachine: every reserved vGPU is attached to the VM. Absent where no GPU is requested."""

    GPU_READY = "GPUReady"
    """VCOMachine: the node offers as many nvidia.com/gpu as were asked for. Says nothing about the
    infrastructure, so Ready does not depend on it. Absent where no GPU is requested, for stub
    profiles, and where the device plugin is left off."""

    GPU_DRIVER_READY = "GPUDriverReady"
    """VCOMachine: the GPU step of the first boot has installed the driver and seen every card. Says
    nothing about the infrastructure, so Ready does not depend on it. Absent without a
    driverVersion."""


class Reason(StrEnum):
    """Why a condition has its status."""

    READY = "Ready"
    """All is as wanted. Cure: nothing to do."""

    PAUSED = "Paused"
    """The Cluster has spec.paused, or the object carries the annotation cluster.x-k8s.io/paused.
    Cure: remove it; held vGPU reservations are billed meanwhile."""

    NOT_PAUSED = "NotPaused"
    """Reconciliation is not paused. Cure: nothing to do."""

    DELETING = "Deleting"
    """The object is being deleted; the message says which step is waited for. Cure: wait; if the
    message does not change for some minutes, look at the resource that it names."""

    WAITING_FOR_OWNER = "WaitingForOwner"
    """No Machine (or Cluster) owns the object yet, or the Cluster cannot be found. Nothing is
    bought without an owner. Cure: nothing if the object was made by Cluster API; an object made by
    hand needs an owner."""

    WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructure"
    """The VCOCluster is not provisioned yet. Cure: look at the conditions of the VCOCluster."""

    WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlane"
    """A worker waits for the control plane to be initialized; its bootstrap data comes after that.
    Cure: look at the control plane's Machines."""

    WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData"
    """The Machine has no bootstrap data secret yet. Cure: look at its bootstrap config."""

    BOOTSTRAP_DATA_INVALID = "BootstrapDataInvalid"
    """The bootstrap data cannot be used: not cloud-config, not valid YAML, Ignition, braces that
    jinja would read, a configuration of kubeadm's that cannot be completed, or larger than
    --max-user-data. Cure: the message says what is wrong; correct the bootstrap configuration of
    the pool."""

    CREDENTIALS_INVALID = "CredentialsInvalid"
    """The credentials Secret is missing or incomplete. Cure: the message names the Secret and the
    missing keys; create or correct it, CAPVCO notices by itself."""

    CREDENTIALS_REFUSED = "CredentialsRefused"
    """The platform refused the credentials (401 or 403). Cure: put a valid token or client secret
    into the Secret; CAPVCO notices by itself. Reservations are kept, and billed, meanwhile."""

    FAILURE_DOMAIN_UNKNOWN = "FailureDomainUnknown"
    """The Machine asks for a failure domain that the VCOCluster does not have. Cure: use one of
    those that the message lists."""

    GPU_TYPE_UNAVAILABLE = "GPUTypeUnavailable"
    """No card of the requested type exists in the location, or too few are free for the requested
    count. Cure: choose a type from the list in the message, or wait: capacity that returns
    provisions the machine without anyone's hand."""

    GPU_TYPE_AMBIGUOUS = "GPUTypeAmbiguous"
    """The requested type covers several models and the operator refuses to choose. Cure: write one
    of the full model names of the message."""

    DRIVER_FOR_STUB_PROFILE = "DriverForStubProfile"
    """The requested GPU type is a placeholder for tests, and a driver is asked for, which could
    only fail on the node. Nothing was bought. Cure: leave gpu.driverVersion empty and render with
    VCO_GPU_ADDON=none, or choose a real GPU type."""

    RESERVING_GPUS = "ReservingGPUs"
    """vGPUs are being reserved one by one. Cure: wait; the message says how many are held."""

    GPU_NAME_TAKEN = "GPUNameTaken"
    """A vGPU that is not provably this machine's carries the name that this machine needs.
    Cure: list it with capvco-gpucheck; rename or release it, or delete this Machine."""

    GPU_RESERVATION_LOST = "GPUReservationLost"
    """A recorded reservation is no longer listed by the platform. Cure: delete the Machine; its
    pool makes a new one."""

    ATTACHING_GPUS = "AttachingGPUs"
    """Reserved vGPUs are being attached to the stopped VM. Cure: wait."""

    CREATING_VM = "CreatingVM"
    """The VM is being created or starts. Cure: wait."""

    CLOUDSPACE_FULL = "CloudspaceFull"
    """The private network of the cloudspace has no address left for another VM: a /24 is full with
    251 VMs. Nothing is bought for a machine that waits for an address; what it already holds stays
    held and billed, as the message says. Cure: delete machines, the next one goes on by itself; a
    network does not grow, so plan larger clusters with a larger cloudspace.privateNetwork."""

    IMAGE_UNAVAILABLE = "ImageUnavailable"
    """The image does not exist in this location or is not ready for use. Cure: image ids belong to
    one location; use an id that the message lists."""

    BOOT_TYPE_MISMATCH = "BootTypeMismatch"
    """The machine's boot type differs from its image's. Cure: set spec.bootType to the image's, or
    publish the image again with the wanted boot type."""

    VM_NAME_TAKEN = "VMNameTaken"
    """A VM that is not this machine's carries its name, in the cloudspace or in its recycle bin.
    Cure: rename or permanently delete it, or delete this Machine."""

    VM_GONE = "VMGone"
    """The VM of a provisioned machine does not exist any more. No second one is made. Cure: delete
    the Machine, or let a MachineHealthCheck do it."""

    VM_NOT_RUNNING = "VMNotRunning"
    """The VM exists but is not running; the message has its state. Cure: start it in the portal,
    or delete the Machine."""

    CREATING_CLOUDSPACE = "CreatingCloudspace"
    """The cloudspace is being created or deployed. Cure: wait."""

    CLOUDSPACE_UNAVAILABLE = "CloudspaceUnavailable"
    """The cloudspace named in the spec does not exist or is not usable. Cure: the message says what
    was looked for and what was found."""

    EXTERNAL_NETWORK_UNAVAILABLE = "ExternalNetworkUnavailable"
    """The external network does not exist in this location. Cure: use an id that the message
    lists; ids belong to one location."""

    CREATING_LOAD_BALANCER = "CreatingLoadBalancer"
    """The server pool or the load balancer of the control-plane endpoint is being made.
    Cure: wait."""

    LOCATION_UNKNOWN = "LocationUnknown"
    """The customer has no such location. Cure: use one of those that the message lists."""

    REFUSED_BY_PLATFORM = "RefusedByPlatform"
    """The platform refused a request and said why; the message has its words. Cure: correct what
    it names. CAPVCO tries again from time to time."""

    PLATFORM_UNREACHABLE = "PlatformUnreachable"
    """The platform did not answer, or not in its own format. Nothing is taken for absent because
    of that. Cure: wait, or look at the platform's status; CAPVCO tries again."""

    WAITING_FOR_PLATFORM = "WaitingForPlatform"
    """A request may or may not have been carried out; CAPVCO looks before it repeats it.
    Cure: wait."""

    MACHINES_REMAIN = "MachinesRemain"
    """A VCOCluster is being deleted while machines of it exist. Cure: wait for them; delete those
    that the message names if nobody else does."""

    WORKLOAD_CLUSTER_UNREACHABLE = "WorkloadClusterUnreachable"
    """The workload cluster's nodes cannot be read, so it is not known whether the GPUs are usable.
    Nothing else depends on it. Cure: look at the control plane of the workload cluster."""

    NODE_NOT_JOINED = "NodeNotJoined"
    """The VM runs, and no node of the workload cluster has its provider id yet. Cure: wait; after
    some minutes read the VM's console and its cloud-init log."""

    GPU_NOT_ALLOCATABLE = "GPUNotAllocatable"
    """The node has joined and offers fewer nvidia.com/gpu than the machine asked for. Cure: on the
    node, run nvidia-smi -L: if it fails the driver did not bind; if it works the device plugin is
    missing (the Cluster's label capvco.infrastructure.cluster.x-k8s.io/gpu)."""

    INSTALLING_GPU_DRIVER = "InstallingGPUDriver"
    """The GPU step of the first boot has left no result that the VM agent could show. Cure: wait
    some minutes; without an agent in the image, read the console or /var/log/capvco-gpu.log."""

    GPU_DRIVER_FAILED = "GPUDriverFailed"
    """The GPU step of the first boot failed; the message has the step, the cause and what to do.
    Cure: correct the image or driverVersion, and let the pool make a new machine; or correct it on
    the node and run /opt/capvco/gpu/boot.sh again."""

    RECORD_UNREADABLE = "RecordUnreadable"
    """The annotation that says what this object holds in the cloud cannot be read, or belongs to
    another customer than the credentials. Nothing is bought or released on a guess. Cure: restore
    the annotation or the credentials; list what is held with capvco-gpucheck."""
