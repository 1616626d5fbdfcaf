"""Kubernetes at first boot, on a plain image in a folder: what is installed, noted, refused."""

import re
from pathlib import Path

import pytest

from tests.node.machine import Node, Run
from tests.node.test_steps import APT_SAYS

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

VERSION = "v1.35.8"
SCRIPT = "kubernetes.sh"
PAUSE = "registry.k8s.io/pause:3.10.1"
HELPERS = ["ca-certificates", "conntrack", "curl", "ethtool", "iptables", "socat"]
KUBEADM = f"""#!/bin/sh
case "$1" in
  version) echo {VERSION} ;;
  config) printf '%s\\n' registry.k8s.io/kube-proxy:{VERSION} {PAUSE} ;;
esac
"""
# What a system has that the GPU step does not need. Each notes that it was called.
_PROGRAMS = {
    "sysctl": '[ ! -e "$PLAY/sysctl.refuses" ]',
    "swapoff": "",
    "systemctl": """
case "$1" in
  restart) [ -e "$PLAY/containerd.breaks" ] || touch "$PLAY/active" ;;
  is-active) [ -e "$PLAY/active" ] ;;
esac""",
}
CONFIG = "etc/containerd/config.toml"


def plain(node: Node) -> Node:
    """Take Kubernetes and containerd away, as in a plain cloud image, and let apt bring them."""
    (node.bin / "containerd").unlink()
    (node.play_folder / "active").unlink()
    for name, body in _PROGRAMS.items():
        node.play(f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >>"$PLAY/calls"\n{body}\n')
        (node.bin / name).chmod(0o755)
    node.play("brings/kubeadm/kubeadm", KUBEADM).chmod(0o755)
    for package, name in (("kubelet", "kubelet"), ("kubectl", "kubectl"), ("cri-tools", "crictl")):
        node.play(f"brings/{package}/{name}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    brought = node.play_folder / "brings/containerd"
    brought.mkdir()
    (brought / "containerd").symlink_to(node.containerd)
    (node.root / "run/systemd/system").mkdir(parents=True)
    node.write("etc/capvco/kubernetes.env", f"CAPVCO_KUBERNETES_VERSION={VERSION}\n")
    node.settings["CAPVCO_KUBERNETES_RETRY_PAUSE"] = "0"
    return node


@pytest.fixture
def bare(node: Node) -> Node:
    """A plain image with Debian's containerd in reach."""
    return plain(node)


@pytest.fixture
def bare_of_any(tmp_path: Path, containerd: Path) -> Node:
    """A plain image with each version of containerd in reach; the toolkit does not matter."""
    return plain(Node(tmp_path / "node", containerd, containerd))


def full(node: Node) -> Node:
    """Let the image have all of it already."""
    for name in ("kubeadm", "kubelet", "kubectl", "containerd"):
        (node.bin / name).symlink_to(node.play_folder / "brings" / name / name)
    return node


def works(node: Node) -> str:
    run = node.run(SCRIPT)
    assert run.code == 0, f"{run.output}\n{node.read('var/log/capvco-kubernetes.log')}"
    return run.output


def fails(node: Node, step: str, cause: str) -> str:
    """It ends with the cause, on the console and in the log as well; return the words."""
    run = node.run(SCRIPT)
    assert run.code == 1, run.output
    line = f"capvco: ERROR: {step}: {cause}: "
    assert line in run.output
    assert line in node.read("dev/console")
    assert line in node.read("var/log/capvco-kubernetes.log")
    return run.output.partition(line)[2].splitlines()[0]


def boots(node: Node) -> Run:
    """Run the entry of runcmd: whatever happens, its status is 0."""
    run = node.run(SCRIPT, "boot")
    assert run.code == 0
    return run


def status(node: Node) -> str:
    found = node.read("run/capvco/kubernetes.status")
    assert node.read("var/lib/capvco/kubernetes.status") == found
    return found


def installed(node: Node) -> list[str]:
    return node.played("installed").split()


def packages(revision: str = "1.35.8-*") -> list[str]:
    return [*(f"{name}={revision}" for name in ("kubeadm", "kubelet", "kubectl")), "cri-tools"]


# The way that ends well.


def test_a_plain_image(bare: Node) -> None:
    """Runtime, kubeadm and kubelet of the Machine's version, held; kernel and swap as they want."""
    bare.write("etc/fstab", "LABEL=root / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n")
    output = works(bare)
    assert installed(bare) == [*HELPERS, "containerd", *packages()]
    assert bare.read("etc/apt/sources.list.d/kubernetes.list") == (
        "deb [signed-by=/usr/share/keyrings/kubernetes-keyring.asc]"
        " https://pkgs.k8s.io/core:/stable:/v1.35/deb/ /\n"
    )
    calls = bare.played("calls")
    assert "https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key" in calls
    assert set(bare.played("held").split()) == {"kubeadm", "kubelet", "kubectl"}
    for call in (
        "modprobe overlay",
        "modprobe br_netfilter",
        "swapoff -a",
        f"sysctl -p {bare.root}/etc/sysctl.d/90-capvco-kubernetes.conf",
        "systemctl enable kubelet",
        "systemctl enable containerd",
        "systemctl restart containerd",
    ):
        assert call in calls.splitlines()
    assert bare.read("etc/modules-load.d/capvco-kubernetes.conf") == "overlay\nbr_netfilter\n"
    assert "net.ipv4.ip_forward = 1" in bare.read("etc/sysctl.d/90-capvco-kubernetes.conf")
    assert bare.read("etc/fstab") == (
        "LABEL=root / ext4 defaults 0 1\n# capvco: /swap.img none swap sw 0 0\n"
    )
    assert "taken out of" in output


def test_every_containerd_takes_it(bare_of_any: Node) -> None:
    """The real containerd has cgroups by systemd, kubeadm's pause image, mirrors and drop-ins."""
    node = bare_of_any
    works(node)
    node.write("etc/containerd/conf.d/mine.toml", "oom_score = -999\n")
    dump = node.dump()
    assert re.search(r"^ *SystemdCgroup = true$", dump, re.MULTILINE)
    assert re.search(rf"^ *sandbox(_image)? = ['\"]{PAUSE}['\"]$", dump, re.MULTILINE)
    assert f"{node.root}/etc/containerd/certs.d" in dump
    assert "oom_score = -999" in dump


def test_the_gpu_step_follows(bare: Node) -> None:
    """What was installed is what the GPU step needs."""
    works(bare)
    node = Node.run(bare)
    assert node.code == 0, node.output


def test_all_is_there(bare: Node) -> None:
    """An image that has all of it is left as it is, and nothing is asked of anybody."""
    before = {path: path.read_bytes() for path in _files(full(bare))}
    bare.play("calls", "")
    output = works(bare)
    assert output == (
        "capvco: kubeadm, kubelet and a container runtime are there: nothing is installed\n"
    )
    assert {path: path.read_bytes() for path in _files(bare)} == before
    assert bare.played("calls") == ""
    boots(bare)
    assert status(bare).startswith(f"ok present - kubeadm={VERSION} containerd=1.")


def _files(node: Node) -> list[Path]:
    return [path for path in (node.root / "etc").rglob("*") if path.is_file()]


def test_another_version_in_the_image(bare: Node) -> None:
    """An image's kubeadm is kept, and a note says that it is not what the Machine asks for."""
    full(bare)
    bare.write("etc/capvco/kubernetes.env", "CAPVCO_KUBERNETES_VERSION=v1.36.1\n")
    assert "NOTE: the Machine asks for Kubernetes v1.36.1, and kubeadm is v1.35.8" in works(bare)
    assert installed(bare) == []
    bare.write("etc/capvco/kubernetes.env", "CAPVCO_KUBERNETES_VERSION=v1.35.8+vendor.1\n")
    assert "NOTE" not in works(bare)


def test_another_runtime(bare: Node) -> None:
    """Where the image has CRI-O, containerd is not wanted."""
    bare.play("bin/crio", "#!/bin/sh\n").chmod(0o755)
    works(bare)
    assert installed(bare) == [*HELPERS, *packages()]
    assert bare.read(CONFIG) == ""


def test_only_what_is_missing(bare: Node) -> None:
    """An image with a kubelet and no runtime gets a runtime."""
    for name in ("kubeadm", "kubelet"):
        (bare.bin / name).symlink_to(bare.play_folder / "brings" / name / name)
    works(bare)
    assert installed(bare) == [*HELPERS, "containerd"]
    assert bare.read("etc/apt/sources.list.d/kubernetes.list") == ""


def test_a_runtime_that_nobody_has_set_up(bare: Node) -> None:
    """Where containerd is there and its main file is not, the kubelet would find other cgroups."""
    (bare.bin / "containerd").symlink_to(bare.containerd)
    works(bare)
    assert installed(bare) == [*HELPERS, *packages()]
    assert "SystemdCgroup = true" in bare.dump()


@pytest.mark.parametrize(
    ("version", "noted"), [("v1.35.8", False), ("v1.36.3", True), ("v1.40.0", True)]
)
def test_a_containerd_that_is_old(bare: Node, version: str, *, noted: bool) -> None:
    """The distribution's containerd may be too old for the newest Kubernetes: that is said."""
    bare.write("etc/capvco/kubernetes.env", f"CAPVCO_KUBERNETES_VERSION={version}\n")
    assert (f"NOTE: Kubernetes {version} wants containerd 2, and this is 1.6." in works(bare)) == (
        noted
    )


def test_a_second_run_changes_nothing(bare: Node) -> None:
    """What is there is found."""
    works(bare)
    before = installed(bare), {path: path.read_bytes() for path in _files(bare)}
    bare.play("calls", "")
    works(bare)
    assert (installed(bare), {path: path.read_bytes() for path in _files(bare)}) == before
    assert bare.played("calls") == ""


def test_another_attempt_after_a_failure(bare: Node) -> None:
    """It goes on where the first one ended, and the main file gets what was not known then."""
    bare.play("curl.failures", "5")
    boots(bare)
    assert status(bare).startswith("failed packages RepositoryUnreachable")
    boots(bare)
    assert status(bare).startswith("ok verify - ")
    assert "SystemdCgroup = true" in bare.dump()
    assert PAUSE in bare.dump()


def test_another_attempt_after_the_last_step_failed(bare: Node) -> None:
    """All programs are there by then, and still it is not done."""
    bare.play("containerd.breaks", "")
    boots(bare)
    assert status(bare).startswith("failed verify ContainerdRefused")
    boots(bare)
    assert status(bare).startswith("failed verify ContainerdRefused")
    (bare.play_folder / "containerd.breaks").unlink()
    boots(bare)
    assert status(bare).startswith("ok verify - ")
    boots(bare)
    assert status(bare).startswith("ok present - ")


def test_in_an_image_in_the_making(bare: Node) -> None:
    """Without systemd and a kernel of its own all is written and enabled, and nothing started."""
    (bare.root / "run/systemd/system").rmdir()
    bare.settings["CAPVCO_KUBERNETES_VERSION"] = VERSION
    (bare.root / "etc/capvco/kubernetes.env").unlink()
    works(bare)
    assert installed(bare) == [*HELPERS, "containerd", *packages()]
    calls = bare.played("calls").splitlines()
    assert "systemctl enable kubelet" in calls
    assert not [c for c in calls if c.startswith(("modprobe", "sysctl", "swapoff"))]
    assert not [c for c in calls if c.startswith(("systemctl restart", "systemctl is-active"))]
    assert "SystemdCgroup = true" in bare.read(CONFIG)
    assert not (bare.root / "run/capvco/kubernetes.status").exists()


# The user's own.


def test_mirrors(bare: Node) -> None:
    """All sources may be others, by a file of the user's own that need not know the version."""
    bare.write(
        "etc/capvco/kubernetes.d/mirror.env",
        "CAPVCO_KUBERNETES_PACKAGES=https://mirror.example/$CAPVCO_KUBERNETES_MINOR/deb\n"
        "CAPVCO_KUBERNETES_KEY=https://mirror.example/key\n"
        "CAPVCO_KUBERNETES_REVISION=1.35.8-2.1\n"
        "CAPVCO_KUBERNETES_CONTAINERD='containerd.io=1.7.28-1 docker-ce-rootless'\n"
        "CAPVCO_KUBERNETES_PAUSE=mirror.example/pause:3.10\n",
    )
    (bare.play_folder / "brings/containerd").rename(bare.play_folder / "brings/containerd.io")
    works(bare)
    assert "https://mirror.example/key" in bare.played("calls")
    assert "] https://mirror.example/v1.35/deb/ /" in bare.read(
        "etc/apt/sources.list.d/kubernetes.list"
    )
    assert installed(bare) == [
        *HELPERS,
        "containerd.io=1.7.28-1",
        "docker-ce-rootless",
        *packages("1.35.8-2.1"),
    ]
    assert "mirror.example/pause:3.10" in bare.dump()


def test_a_list_of_ones_own(bare: Node) -> None:
    """A mirror of another layout takes the whole line; a key may be a file, and no curl is used."""
    line = "deb https://mirror.example/debs noble kubernetes"
    bare.write(
        "etc/capvco/kubernetes.d/mirror.env",
        f"CAPVCO_KUBERNETES_LIST='{line}'\nCAPVCO_KUBERNETES_KEY=/etc/capvco/key.asc\n",
    )
    bare.write("etc/capvco/key.asc", bare.played("key"))
    works(bare)
    assert bare.read("etc/apt/sources.list.d/kubernetes.list") == f"{line}\n"
    assert not re.search("^curl", bare.played("calls"), re.MULTILINE)


def test_one_list(bare: Node) -> None:
    """Other lists of the same packages are put aside: two keys for one repository stop apt."""
    other = "deb [signed-by=/x.gpg] https://pkgs.k8s.io/core:/stable:/v1.33/deb/ /\n"
    bare.write("etc/apt/sources.list.d/k8s.list", other)
    bare.write("etc/apt/sources.list.d/mine.sources", "URIs: https://archive.example\n")
    works(bare)
    assert sorted(p.name for p in (bare.root / "etc/apt/sources.list.d").iterdir()) == [
        "k8s.list.disabled",
        "kubernetes.list",
        "mine.sources",
    ]


def test_a_main_file_of_the_users(bare: Node) -> None:
    """A file that the bootstrap configuration brings stays, with a note where pods may suffer."""
    bare.write(CONFIG, "version = 2\n# mine\n")
    assert "has no SystemdCgroup = true" in works(bare)
    assert bare.read(CONFIG) == "version = 2\n# mine\n"


# What fails.


def test_a_main_file_without_the_cri_plugin(bare: Node) -> None:
    """As Docker's package brings it: found before kubeadm meets it, whose words do not say why."""
    bare.write(CONFIG, 'disabled_plugins = ["cri"]\n')
    assert "disables containerd's CRI plugin" in fails(bare, "verify", "CRIDisabled")


def test_a_main_file_that_cannot_be_read(bare: Node) -> None:
    """The message has containerd's words."""
    bare.write(CONFIG, "version = ][\n")
    assert "containerd cannot read" in fails(bare, "verify", "ConfigUnreadable")


def test_containerd_that_does_not_start(bare: Node) -> None:
    """It is waited for, not for ever."""
    bare.play("containerd.breaks", "")
    fails(bare, "verify", "ContainerdRefused")


def test_a_kernel_without_the_module(bare: Node) -> None:
    """The module is named."""
    bare.play("bin/modprobe", '#!/bin/sh\n[ "$1" != br_netfilter ]\n')
    assert "br_netfilter" in fails(bare, "kernel", "NoKernelModule")


def test_a_kernel_that_refuses_a_setting(bare: Node) -> None:
    """The file is named."""
    bare.play("sysctl.refuses", "")
    assert "90-capvco-kubernetes.conf" in fails(bare, "kernel", "KernelSettingRefused")


@pytest.mark.parametrize("version", ["", "1.35", "latest", "v1.35.8;x"])
def test_a_version_that_is_none(bare: Node, version: str) -> None:
    """Nothing is installed for a version that nobody could mean."""
    bare.write("etc/capvco/kubernetes.env", f"CAPVCO_KUBERNETES_VERSION='{version}'\n")
    fails(bare, "settings", "SettingsInvalid")
    assert installed(bare) == []


def test_another_kind_of_system(bare: Node) -> None:
    """Without apt nothing can be installed, and the message says what to do."""
    (bare.bin / "apt-get").unlink()
    assert "use an image that has them" in fails(bare, "settings", "NoPackageManager")


@pytest.mark.parametrize("words", APT_SAYS)
def test_an_archive_that_fails(bare: Node, words: str) -> None:
    """A bounded number of attempts; then a cause and apt's words, with the archive's name."""
    bare.play("apt.failures", "99")
    bare.play("apt.says", f"{words}\n")
    said = fails(bare, "runtime", APT_SAYS[words])
    assert words in said
    if APT_SAYS[words] in ("RepositoryUnreachable", "PackageMissing"):
        assert "the distribution's archive" in said
    assert bare.played("apt.failures").strip() == "94"


def test_a_version_that_the_repository_has_not(bare: Node) -> None:
    """The repository is named, and the version that was looked for."""
    bare.play("apt.lacks", "kubelet")
    bare.play("apt.says", "E: Version '1.35.8-*' for 'kubelet' was not found\n")
    said = fails(bare, "packages", "PackageMissing")
    assert "https://pkgs.k8s.io/core:/stable:/v1.35/deb has no kubeadm=1.35.8-*" in said


def test_packages_that_bring_nothing(bare: Node) -> None:
    """What apt says is not believed: the programs must be there."""
    (bare.play_folder / "brings/kubelet/kubelet").unlink()
    (bare.play_folder / "brings/kubelet").rmdir()
    fails(bare, "verify", "InstallFailed")


def test_troubles_that_are_none_of_ours(bare: Node) -> None:
    """Neither a hold nor swap that cannot be had is worth a node; both are said."""
    for name in ("apt-mark", "swapoff"):
        bare.play(f"bin/{name}", "#!/bin/sh\nexit 1\n")
    output = works(bare)
    assert "NOTE: apt-mark hold failed" in output
    assert "NOTE: swapoff -a failed" in output


def test_a_key_out_of_reach(bare: Node) -> None:
    """The URL and the setting that changes it are named; it was tried five times."""
    bare.play("curl.failures", "99")
    said = fails(bare, "packages", "RepositoryUnreachable")
    assert "https://pkgs.k8s.io/core:/stable:/v1.35/deb/Release.key" in said
    assert "CAPVCO_KUBERNETES_KEY" in said
    assert bare.played("curl.failures").strip() == "94"


def test_every_call_waits_for_the_lock(bare: Node) -> None:
    """At first boot the distribution's own upgrades hold it."""
    works(bare)
    calls = [c for c in bare.played("calls").splitlines() if c.startswith("apt-get")]
    assert len(calls) == 4
    assert all("-o DPkg::Lock::Timeout=300" in call for call in calls)


# The entry of runcmd.


def test_the_marker(bare: Node) -> None:
    """A first boot leaves one line, on the console too."""
    boots(bare)
    found = status(bare)
    assert re.fullmatch(rf"ok verify - kubeadm={VERSION} containerd=1\.\d+\.\d+\n", found)
    assert f"capvco: Kubernetes step: {found.strip()}" in bare.read("dev/console")


def test_the_marker_of_a_failure(bare: Node) -> None:
    """Cause and words are in it, and kubeadm's line follows: the status is 0."""
    bare.play("curl.failures", "99")
    boots(bare)
    assert status(bare).startswith(
        "failed packages RepositoryUnreachable kubeadm=- containerd=1.6.20: the key https://"
    )


def test_the_marker_of_a_run_without_end(bare: Node) -> None:
    """What hangs is ended, and the marker says where it hung."""
    bare.settings["CAPVCO_KUBERNETES_TIMEOUT"] = "1"
    bare.play("bin/curl", "#!/bin/sh\nexec sleep 60\n")
    boots(bare)
    assert status(bare) == (
        "failed packages TimedOut kubeadm=- containerd=1.6.20: not done after 1 s; the log says how"
        " far it came\n"
    )


def test_the_gpu_step_says_why_there_is_no_containerd(bare: Node) -> None:
    """Its own cause would hide the first one."""
    bare.play("apt.failures", "5")
    bare.play("apt.says", "E: Failed to fetch x  Hash Sum mismatch\n")
    boots(bare)
    run = Node.run(bare)
    assert "ERROR: containerd: NoContainerd: " in run.output
    assert "the Kubernetes step before this one: runtime RepositoryUnreachable" in run.output
