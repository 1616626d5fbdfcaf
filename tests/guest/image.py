"""The image of the guests: Debian with what any node has, and the places of the programs.

The programs are on a disk of their own, mounted on /opt/node, so that a newer one needs no new
image.
"""

from tests.support.guests.debian import DebianImage, Recipe, debian_image

PROGRAMS = "node"
"""Label of the disk with the programs."""
CARD = "stub_card.ko"
REPORT = "report.sh"
KEY = "key.asc"
"""Of the repositories."""
FOLDER = f"/opt/{PROGRAMS}"
_ON_PATH = ("containerd", "containerd-shim-runc-v2", "kubeadm", "kubelet")
_PACKAGES = ("conntrack", "ethtool", "iptables", "iputils-ping", "procps", "runc", "gpgv")
_UNITS = {
    f"opt-{PROGRAMS}.mount": f"""\
[Mount]
What=/dev/disk/by-label/{PROGRAMS}
Where={FOLDER}
Type=iso9660
Options=ro
[Install]
WantedBy=local-fs.target
""",
    "containerd.service": f"""\
[Unit]
After=network.target
RequiresMountsFor={FOLDER}
[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNOFILE=1048576
[Install]
WantedBy=multi-user.target
""",
    "card.service": f"""\
[Unit]
DefaultDependencies=no
RequiresMountsFor={FOLDER}
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/sbin/insmod {FOLDER}/{CARD}
[Install]
WantedBy=sysinit.target
""",
    "report.service": f"""\
[Unit]
After=cloud-final.service
[Service]
Type=oneshot
ExecStart=/bin/sh {FOLDER}/{REPORT}
[Install]
WantedBy=cloud-init.target
""",
    # As the packages of kubeadm have it, but for the condition: there it starts in vain every ten
    # seconds until kubeadm has run, which is too much for a guest without KVM.
    "kubelet.service": """\
[Unit]
ConditionPathExists=/var/lib/kubelet/config.yaml
Wants=network-online.target
After=network-online.target
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
""",
}
_CONTAINERD = """\
version = 3

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = true
"""
_FILES = {
    "/etc/containerd/config.toml": _CONTAINERD,
    "/etc/systemd/network/20-all.network": "[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n",
    "/etc/cloud/cloud.cfg.d/91-network.cfg": "network: {config: disabled}\n",
    "/etc/modules-load.d/kubernetes.conf": "overlay\nbr_netfilter\n",
    "/etc/sysctl.d/90-kubernetes.conf": "net.ipv4.ip_forward = 1\n",
    **{f"/etc/systemd/system/{name}": text for name, text in _UNITS.items()},
}
_COMMANDS = (
    f"mkdir -p {FOLDER}",
    *(f"ln -s {FOLDER}/bin/{name} /usr/local/bin/{name}" for name in _ON_PATH),
    "systemctl mask serial-getty@ttyS0.service",  # its prompt would begin other lines
    f"systemctl enable systemd-networkd {' '.join(_UNITS)}",
)


def node_image() -> DebianImage:
    """Return the image, made on the first use. Raises ImageError."""
    return debian_image(Recipe(packages=_PACKAGES, files=tuple(_FILES.items()), commands=_COMMANDS))
