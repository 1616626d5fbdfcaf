"""Objects of a management cluster, as the manager would leave them behind."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from capvco.api.crds import crds, definitions
from capvco.api.v1beta1 import GROUP, RECORD_ANNOTATION, VERSION
from capvco.services.record import Record, dump
from kubelocal import LocalCluster

_READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: NAMESPACE}
rules:
- {apiGroups: [infrastructure.cluster.x-k8s.io], resources: [vcomachines], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NAMESPACE}
subjects: [{kind: ServiceAccount, name: reader, namespace: NAMESPACE}]
roleRef: {kind: Role, name: reader, apiGroup: rbac.authorization.k8s.io}
"""


@dataclass(frozen=True)
class Management:
    """A real API server with our kinds, and a namespace in it."""

    cluster: LocalCluster
    namespace: str
    folder: Path

    @property
    def kubeconfig(self) -> str:
        return str(self.cluster.kubeconfig)

    def install(self) -> None:
        """Put our kinds there; returns when they are served."""
        self.cluster.apply(yaml.safe_dump_all(crds()))
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")

    def uninstall(self) -> None:
        """Take our kinds away; returns when they are gone."""
        names = [f"{one.plural}.{GROUP}" for one in definitions()]
        self.cluster.kubectl("delete", "crd", "--wait", *names)

    def machine(
        self,
        name: str,
        record: Record | str | None = None,
        *,
        vm: tuple[str, int] | None = None,
        namespace: str = "",
    ) -> None:
        """Make a VCOMachine with this record, and this VM in its status."""
        kept = dump(record) if isinstance(record, Record) else record
        metadata = {
            "name": name,
            "namespace": namespace or self.namespace,
            "annotations": {} if kept is None else {RECORD_ANNOTATION: kept},
        }
        self._apply("VCOMachine", metadata, {"imageID": 201})
        if vm is not None:
            where = ("-n", self.namespace, "--type=merge", "--subresource=status")
            status = f'{{"status": {{"cloudspaceID": "{vm[0]}", "vmID": {vm[1]}}}}}'
            self.cluster.kubectl("patch", "vcomachine", name, *where, "-p", status)

    def vco_cluster(self, record: Record) -> None:
        """Make a VCOCluster with this record."""
        metadata = {
            "name": "prod",
            "namespace": self.namespace,
            "annotations": {RECORD_ANNOTATION: dump(record)},
        }
        spec = {"identityRef": {"name": "vco"}, "location": "be", "externalNetworkID": 11}
        self._apply("VCOCluster", metadata, spec)

    def _apply(self, kind: str, metadata: Mapping[str, object], spec: Mapping[str, object]) -> None:
        document = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": kind,
            "metadata": dict(metadata),
            "spec": dict(spec),
        }
        self.cluster.apply(yaml.safe_dump(document))

    def secret(self, data: dict[str, str]) -> str:
        """Make a credentials Secret; return namespace/name."""
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "vco", "namespace": self.namespace},
            "stringData": data,
        }
        self.cluster.apply(yaml.safe_dump(document))
        return f"{self.namespace}/vco"

    def reader(self) -> str:
        """Return a kubeconfig that may list the VCOMachines of this namespace, and nothing else."""
        self.cluster.apply(_READER.replace("NAMESPACE", self.namespace))
        path = self.folder / "reader"
        return str(self.cluster.service_account_kubeconfig(self.namespace, "reader", path))

    def nobody(self) -> str:
        """Return a kubeconfig that may nothing."""
        self.cluster.kubectl("create", "serviceaccount", "nobody", "-n", self.namespace)
        path = self.folder / "nobody"
        return str(self.cluster.service_account_kubeconfig(self.namespace, "nobody", path))

    def clear(self) -> None:
        """Remove every object of ours."""
        self.cluster.kubectl("delete", "vcomachines,vcoclusters", "-A", "--all", "--wait")
