"""The images of the guests: Debian, with what a node has, or without any of it.

Programs and repositories are on a disk of their own, mounted on /opt/node, so that other ones need
no other image.
"""

from pathlib import Path

from tests.support.guests.debian import DebianImage, Recipe, debian_image

PROGRAMS = "node"
"""Label of the disk with the programs."""
FOLDER = f"/opt/{PROGRAMS}"
CARD = "stub_card.ko"
REPORT = "report.sh"
KEY = "key.asc"
"""Of the repositories."""
UNITS = Path(__file__).parent / "units"
NODE_UNITS = ("containerd.service", "kubelet.service")
_PLAIN_UNITS = ("opt-node.mount", "card.service", "report.service")
_ON_PATH = ("containerd", "containerd-shim-runc-v2", "kubeadm", "kubelet")
_PACKAGES = ("conntrack", "curl", "ethtool", "gpgv", "iptables", "procps", "runc", "socat")
_CONTAINERD = """\
version = 3

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
"""
_NETWORK = {
    "/etc/systemd/network/20-all.network": "[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n",
    "/etc/cloud/cloud.cfg.d/91-network.cfg": "network: {config: disabled}\n",
}
_NODE_FILES = {
    "/etc/containerd/config.toml": _CONTAINERD,
    "/etc/modules-load.d/kubernetes.conf": "overlay\nbr_netfilter\n",
    "/etc/sysctl.d/90-kubernetes.conf": "net.ipv4.ip_forward = 1\n",
}


def plain_image() -> DebianImage:
    """Return an image without Kubernetes, made on the first use. Raises ImageError."""
    return _image(_PLAIN_UNITS, {})


def node_image() -> DebianImage:
    """Return an image with containerd, kubelet and kubeadm. Raises ImageError."""
    links = (f"ln -s {FOLDER}/bin/{name} /usr/local/bin/{name}" for name in _ON_PATH)
    return _image((*_PLAIN_UNITS, *NODE_UNITS), _NODE_FILES, *links)


def _image(units: tuple[str, ...], files: dict[str, str], *commands: str) -> DebianImage:
    texts = {f"/etc/systemd/system/{name}": (UNITS / name).read_text() for name in units}
    return debian_image(
        Recipe(
            packages=_PACKAGES,
            files=tuple((_NETWORK | files | texts).items()),
            commands=(
                f"mkdir -p {FOLDER}",
                "systemctl mask serial-getty@ttyS0.service",  # its prompt would begin other lines
                f"systemctl enable systemd-networkd {' '.join(units)}",
                *commands,
            ),
        )
    )
