"""The kinds that the controllers read and write."""

from capvco.api.upstream import CLUSTER_GROUP, Cluster, Machine, Node, Secret
from capvco.api.v1beta1 import GROUP, VERSION
from capvco.api.v1beta1.cluster import VCOCluster
from capvco.api.v1beta1.machine import VCOMachine
from capvco.api.v1beta1.templates import VCOMachineTemplate
from capvco.runtime.kinds import Kind

VCO_CLUSTER = Kind(GROUP, VERSION, "VCOCluster", "vcoclusters", VCOCluster)
VCO_MACHINE = Kind(GROUP, VERSION, "VCOMachine", "vcomachines", VCOMachine)
VCO_MACHINE_TEMPLATE = Kind(
    GROUP, VERSION, "VCOMachineTemplate", "vcomachinetemplates", VCOMachineTemplate
)
CLUSTER = Kind(CLUSTER_GROUP, "v1beta2", "Cluster", "clusters", Cluster)
MACHINE = Kind(CLUSTER_GROUP, "v1beta2", "Machine", "machines", Machine)
NODE = Kind("", "v1", "Node", "nodes", Node, namespaced=False)
SECRET = Kind("", "v1", "Secret", "secrets", Secret)
