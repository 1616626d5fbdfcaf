"""infrastructure-components.yaml: everything that clusterctl installs for CAPVCO."""

from msgspec import convert

from capvco.api.crds import PROVIDER, PROVIDER_LABEL, crds
from capvco.api.policies import Manifest, template_policies
from capvco.release import rbac

IMAGE = "ghcr.io/capvco/cluster-api-provider-vco"
DEPLOYMENT = "capvco-controller-manager"
HEALTH_PORT = 9440
METRICS_PORT = 8443
ARGUMENTS = (
    "--leader-elect",
    f"--health-addr=:{HEALTH_PORT}",
    f"--diagnostics-address=:{METRICS_PORT}",
)

_PODS = {"control-plane": DEPLOYMENT, PROVIDER_LABEL: PROVIDER}
_NON_ROOT = 65532


def components(version: str) -> list[Manifest]:
    """Return all objects in the order of installation, each with the provider label."""
    return [_labelled(manifest) for manifest in _all(version)]


def _all(version: str) -> list[Manifest]:
    namespace: Manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": rbac.NAMESPACE},
    }
    policies = template_policies()
    return [namespace, *crds(), *rbac.manifests(), *policies, _deployment(version)]


def _labelled(manifest: Manifest) -> Manifest:
    metadata = convert(manifest["metadata"], Manifest)
    labels = {PROVIDER_LABEL: PROVIDER} | convert(metadata.get("labels", {}), dict[str, str])
    return manifest | {"metadata": metadata | {"labels": labels}}


def _deployment(version: str) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "namespace": rbac.NAMESPACE, "labels": dict(_PODS)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(_PODS)},
            "template": {"metadata": {"labels": dict(_PODS)}, "spec": _pod(version)},
        },
    }


def _pod(version: str) -> Manifest:
    return {
        "serviceAccountName": rbac.SERVICE_ACCOUNT,
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NON_ROOT,
            "runAsGroup": _NON_ROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ],
        "containers": [_container(version)],
    }


def _container(version: str) -> Manifest:
    return {
        "name": "manager",
        "image": f"{IMAGE}:{version}",
        "args": list(ARGUMENTS),
        "env": [
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_NAMESPACE", "metadata.namespace"),
        ],
        "ports": [
            {"name": "healthz", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _from_pod(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "healthz"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
    }
