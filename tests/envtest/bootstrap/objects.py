"""Objects of clusters whose bootstrap data the real kubeadm bootstrap provider writes."""

import base64
import gzip
import json

from tests.support import scenario
from tests.support.scenario import CAPI, INFRA, Object, a_vco_machine

BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
SECRET = "files"
FROM_A_SECRET = "#!/bin/sh\n\techo \"a: b\" # 'ü' ${x:-y}\n\n  last\n"
PASSWORD = "$6$rounds=4096$c2FsdA$aGFzaGVk"
PACKED = b"packed: {{ as it is }}\n"


def a_cluster(name: str) -> Object:
    """Return a Cluster with stand-alone control-plane machines; the test plays its API server."""
    made = scenario.a_cluster(name)
    made["spec"]["clusterNetwork"]["services"] = {"cidrBlocks": ["10.96.0.0/12"]}
    made["spec"]["controlPlaneEndpoint"] = {"host": "203.0.113.2", "port": 6443}
    return made


def secret(name: str, data: dict[str, str], cluster: str = "") -> Object:
    """Return a Secret; of a cluster, as Cluster API looks for them."""
    labels = {f"{CAPI}/cluster-name": cluster} if cluster else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": f"{CAPI}/secret" if cluster else "Opaque",
        "metadata": {"name": name, "labels": labels},
        "stringData": data,
    }


def a_machine(name: str, cluster: str, version: str, spec: Object, *, member: bool) -> list[Object]:
    """Return a Machine with its KubeadmConfig and its VCOMachine."""
    machine: Object = {
        "apiVersion": f"{CAPI}/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "labels": {f"{CAPI}/cluster-name": cluster}},
        "spec": {
            "clusterName": cluster,
            "version": version,
            "bootstrap": {
                "configRef": {"apiGroup": BOOTSTRAP, "kind": "KubeadmConfig", "name": name}
            },
            "infrastructureRef": {"apiGroup": INFRA, "kind": "VCOMachine", "name": name},
        },
    }
    if member:
        machine["metadata"]["labels"][f"{CAPI}/control-plane"] = ""
    config = {
        "apiVersion": f"{BOOTSTRAP}/v1beta2",
        "kind": "KubeadmConfig",
        "metadata": {"name": name, "labels": {f"{CAPI}/cluster-name": cluster}},
        "spec": spec,
    }
    return [a_vco_machine(name, cluster), config, machine]


def registration() -> Object:
    """Return what a user may say of a node."""
    return {
        "name": "{{ ds.meta_data.local_hostname }}",
        "kubeletExtraArgs": [
            {"name": "cgroup-driver", "value": "systemd"},
            {"name": "node-labels", "value": "tier=gpu"},
        ],
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    }


def everything(role: str) -> Object:
    """Return a KubeadmConfig's spec that has a bit of all that the provider writes."""
    spec: Object = {
        "format": "cloud-config",
        "verbosity": 5,
        "bootCommands": ["mkdir -p /run/early"],
        "preKubeadmCommands": [
            "hostnamectl set-hostname {{ ds.meta_data.local_hostname }}",
            'echo "127.0.0.1 $(hostname) # \\"ü\\"" >>/etc/hosts',
        ],
        "postKubeadmCommands": ["touch /run/late"],
        "ntp": {"enabled": True, "servers": ["ntp.example.org", "192.0.2.1"]},
        "users": [_user()],
        "diskSetup": _disks(),
        "mounts": [["LABEL=data", "/var/lib/data"]],
        "files": _files(),
    }
    if role == "init":
        return spec | {
            "initConfiguration": {"nodeRegistration": registration()},
            "clusterConfiguration": {"apiServer": {"certSANs": ["api.example.org"]}},
        }
    join: Object = {"nodeRegistration": registration()}
    if role == "control-plane":
        join["controlPlane"] = {"localAPIEndpoint": {"bindPort": 6443}}
    return spec | {"joinConfiguration": join}


def _user() -> Object:
    return {
        "name": "ops",
        "gecos": "Operations",
        "groups": "sudo",
        "shell": "/bin/bash",
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "lockPassword": False,
        "passwdFrom": {"secret": {"name": SECRET, "key": "password"}},
        "sshAuthorizedKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOw ops@example.org"],
    }


def _disks() -> Object:
    return {
        "partitions": [
            {"device": "/dev/vdb", "layout": True, "overwrite": False, "tableType": "gpt"}
        ],
        "filesystems": [
            {
                "device": "/dev/vdb1",
                "filesystem": "ext4",
                "label": "data",
                "extraOpts": ["-E", "lazy_itable_init=1"],
            }
        ],
    }


def _files() -> list[Object]:
    plain = base64.b64encode(PACKED).decode()
    packed = base64.b64encode(gzip.compress(PACKED, mtime=0)).decode()
    return [
        {"path": "/etc/motd", "content": "this is {{ ds.meta_data.local_hostname }}\n"},
        {
            "path": "/usr/local/bin/names",
            "permissions": "0755",
            "content": "{% raw %}crictl ps -o go-template='{{ .Names }}' ${#a[@]}{% endraw %}\n",
        },
        {"path": "/etc/plain", "encoding": "base64", "content": plain},
        {"path": "/etc/packed", "encoding": "gzip+base64", "content": packed},
        {"path": "/etc/hosts", "append": True, "content": "192.0.2.7 registry.example.org\n"},
        {
            "path": "/usr/local/bin/secret",
            "owner": "root:root",
            "permissions": "0700",
            "contentFrom": {"secret": {"name": SECRET, "key": "script"}},
        },
    ]


def kubeconfig_secret(cluster: str, kubeconfig: str) -> Object:
    """Return the Secret that tells Cluster API how a workload cluster is reached."""
    return secret(f"{cluster}-kubeconfig", {"value": kubeconfig}, cluster)


def text(objects: list[Object], namespace: str) -> str:
    """Return objects of a namespace as one text."""
    for one in objects:
        one["metadata"]["namespace"] = namespace
    return "\n---\n".join(json.dumps(one) for one in objects)
