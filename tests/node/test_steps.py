"""The whole GPU step on a node in a folder: what it installs, notes, refuses, and reports."""

import base64
import re
from pathlib import Path

import pytest

from tests.node.machine import KERNEL, SCRIPTS, UNASSIGNED, Node

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

PREBUILT = f"linux-modules-nvidia-570-server-{KERNEL}"
HEADERS = f"linux-headers-{KERNEL}"
DRIVER = "nvidia-driver-570-server"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def status(node: Node) -> str:
    """Return the marker that a first boot leaves."""
    return node.read("run/capvco/gpu.status")


def works(node: Node) -> str:
    """Run the step; it ends well."""
    run = node.run()
    assert run.code == 0, f"{run.output}\n{node.read('var/log/capvco-gpu.log')}"
    return run.output


def fails(node: Node, step: str, cause: str) -> str:
    """Run the step; it ends with the cause, on the console and in the log as well."""
    run = node.run()
    assert run.code == 1, run.output
    line = f"capvco: ERROR: {step}: {cause}: "
    assert line in run.output
    assert line in node.read("dev/console")
    assert line in node.read("var/log/capvco-gpu.log")
    return run.output.partition(line)[2].splitlines()[0]


def installed(node: Node) -> list[str]:
    return node.played("installed").split()


# The way that ends well.


def test_a_plain_image(node: Node) -> None:
    """Driver, modules for the running kernel, toolkit, runtime: each installed once, all held."""
    output = works(node)
    assert installed(node) == [
        DRIVER,
        PREBUILT,
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    ]
    assert set(node.played("held").split()) == set(installed(node))
    assert "nvidia" in node.dump()
    assert "1 card(s) usable, driver 570.133.20" in output
    assert "NOTE" not in output
    for step in ("preflight", "driver", "toolkit", "containerd", "verify"):
        assert re.search(rf"capvco: {step}: done in \d+ s", node.read("dev/console"))


def test_a_second_run_changes_nothing(node: Node) -> None:
    """What is there is found, and nothing is fetched, written or restarted."""
    works(node)
    kept = {p: p.read_bytes() for p in (node.root / "etc").rglob("*") if p.is_file()}
    before = installed(node), node.played("restarts"), node.played("held")
    node.play("calls", "")
    works(node)
    assert (installed(node), node.played("restarts"), node.played("held")) == before
    assert {p: p.read_bytes() for p in (node.root / "etc").rglob("*") if p.is_file()} == kept
    assert "apt-get" not in node.played("calls")
    assert "curl" not in node.played("calls")


def test_an_image_with_a_driver(node: Node) -> None:
    """A driver that works is kept; where it is of another branch, a note says so."""
    node.play("bin/nvidia-smi", node.played("nvidia-smi")).chmod(0o755)
    node.write("sys/module/nvidia/version", "550.90.07\n")
    output = works(node)
    assert DRIVER not in installed(node)
    assert "capvco: NOTE: requested NVIDIA driver branch 570, loaded 550 (550.90.07)" in output


def test_a_driver_that_is_installed_and_not_loaded(node: Node) -> None:
    """After a reboot of a node the module is loaded, and nothing installed again."""
    node.play("bin/nvidia-smi", node.played("nvidia-smi")).chmod(0o755)
    node.play("module", "570.133.20\n")
    works(node)
    assert DRIVER not in installed(node)


def test_a_branch_that_forwards(node: Node) -> None:
    """The modules fit the branch that really comes, and a note says which that is."""
    node.archive(DRIVER, PREBUILT, PREBUILT.replace("570", "580"))
    node.play("simulated", "Inst nvidia-kernel-common-580-server (580.65 Ubuntu:24.04)\n")
    node.play("archive.version", "580.65.06\n")
    output = works(node)
    assert PREBUILT.replace("570", "580") in installed(node)
    assert PREBUILT not in installed(node)
    assert "capvco: NOTE: requested NVIDIA driver branch 570, loaded 580 (580.65.06)" in output


def test_open_modules(node: Node) -> None:
    """R71: with -open both packages are those of the open modules."""
    node.ask("580-open", 1)
    packages = ("nvidia-driver-580-server-open", f"linux-modules-nvidia-580-server-open-{KERNEL}")
    node.archive(*packages)
    node.play("archive.version", "580.65.06\n")
    works(node)
    assert installed(node)[:2] == list(packages)


# R58, R59: drivers of the kernel's own that hold the card. Blacklisting is the image's.


@pytest.mark.parametrize("driver", ["nouveau", "nova_core"])
def test_r58_r59_another_driver_holds_the_card(node: Node, driver: str) -> None:
    """It is unloaded where that works, which it does for older cards, and blacklisted."""
    node.bind(driver)
    output = works(node)
    assert f"NOTE: {driver} holds 0000:00:07.0: the image does not blacklist it" in output
    for name in ("nouveau", "nova_core", "nova_drm"):
        assert f"blacklist {name}" in node.read("etc/modprobe.d/capvco-gpu.conf")


def test_r58_another_driver_that_stays(node: Node) -> None:
    """Where it cannot be unloaded nothing is installed, and the message is the symptom's."""
    node.bind("nouveau")
    node.play("stuck", "")
    said = fails(node, "preflight", "ForeignDriverBound")
    assert "nvidia-smi exits 9, lsmod shows nouveau" in said
    assert "does not blacklist nouveau" in said
    assert installed(node) == []


def test_r58_another_driver_that_spoilt_the_card(node: Node) -> None:
    """On newer cards nouveau leaves firmware behind: then the refusal has its name."""
    node.bind("nouveau")
    node.play("refuses", "nvidia: probe of 0000:00:07.0 failed with error -1\n")
    said = fails(node, "driver", "ForeignDriverBound")
    assert "which nouveau held at boot" in said


# R60 to R62 are in test_containerd.py.

# R66 to R70, R72: packages.


def test_r66_upgrades_are_held(node: Node) -> None:
    """Neither apt nor unattended upgrades replace user space below a loaded module."""
    works(node)
    assert DRIVER in node.played("held").split()
    assert "libnvidia-container1" in node.played("held").split()
    assert (
        'Unattended-Upgrade::Package-Blacklist { "nvidia"; };'
        in node.read("etc/apt/apt.conf.d/52capvco-gpu").splitlines()
    )


def test_r67_the_lock_is_waited_for(node: Node) -> None:
    """Every call of apt-get waits for the lock of the package manager."""
    works(node)
    calls = [c for c in node.played("calls").splitlines() if c.startswith("apt-get")]
    assert len(calls) > 2
    assert all("-o DPkg::Lock::Timeout=300" in call for call in calls)


APT_SAYS = {
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7": (
        "PackageManagerLocked"
    ),
    "E: Failed to fetch http://archive.example/x.deb  Hash Sum mismatch": "RepositoryUnreachable",
    "E: The repository 'https://nvidia.example stable' does not have a Release file.": (
        "RepositoryUnreachable"
    ),
    "E: Unable to locate package nvidia-driver-570-server": "PackageMissing",
    "E: You don't have enough free space; No space left on device": "DiskFull",
    "E: Sub-process /usr/bin/dpkg returned an error code (1)": "InstallFailed",
}


@pytest.mark.parametrize("words", APT_SAYS)
def test_r68_apt_fails(node: Node, words: str) -> None:
    """A bounded number of attempts; then a cause, the repository's name and apt's words."""
    node.play("apt.failures", "99")
    node.play("apt.says", f"{words}\n")
    said = fails(node, "driver", APT_SAYS[words])
    assert words in said
    if APT_SAYS[words] in ("RepositoryUnreachable", "PackageMissing"):
        assert "Ubuntu's archive" in said
    assert node.played("apt.failures").strip() == "94"


@pytest.mark.parametrize("failures", [1, 4])
def test_r68_apt_recovers(node: Node, failures: int) -> None:
    """A repository that is broken for a while is waited for."""
    node.play("apt.failures", str(failures))
    node.play("apt.says", "E: Failed to fetch x  Hash Sum mismatch\n")
    output = works(node)
    assert output.count("failed (attempt ") == failures


def test_r69_one_list(node: Node) -> None:
    """Other lists that name the repository with another key are put aside, on every boot alike."""
    lists = node.root / "etc/apt/sources.list.d"
    old = (
        "deb [signed-by=/other.gpg] https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /"
    )
    node.write("etc/apt/sources.list.d/libnvidia-container.list", f"{old}\n")
    node.write("etc/apt/sources.list.d/nvidia-container-toolkit.list", f"{old}\n")
    node.write("etc/apt/sources.list.d/mine.sources", "URIs: https://archive.example\n")
    works(node)
    assert sorted(path.name for path in lists.iterdir()) == [
        "libnvidia-container.list.disabled",
        "mine.sources",
        "nvidia-container-toolkit.list",
    ]
    assert node.read("etc/apt/sources.list.d/nvidia-container-toolkit.list") == (
        "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.asc]"
        " https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
    )


def test_r70_headers_of_the_running_kernel(node: Node) -> None:
    """Without prebuilt modules the headers are those of the kernel that runs."""
    node.archive(DRIVER, HEADERS)
    works(node)
    assert HEADERS in installed(node)
    assert PREBUILT not in installed(node)


def test_r70_neither_modules_nor_headers(node: Node) -> None:
    """Nothing is installed that could not work; the kernel is named."""
    node.archive(DRIVER)
    assert KERNEL in fails(node, "driver", "NoKernelModule")
    assert installed(node) == []


def test_r70_modules_that_did_not_come(node: Node) -> None:
    """A build that failed is seen by what is missing, whatever apt says."""
    node.archive(DRIVER, HEADERS)
    node.play("no-module", "")
    node.write("var/lib/dkms/nvidia/570/build/make.log", "cc: not found\n")
    assert "make.log" in fails(node, "driver", "NoKernelModule")
    assert "cc: not found" in node.read("var/log/capvco-gpu.log")


def test_an_unknown_branch(node: Node) -> None:
    """The message lists the branches that there are."""
    node.ask("123", 1)
    node.archive(DRIVER, "nvidia-driver-580-server", "nvidia-driver-580-server-open")
    said = fails(node, "driver", "BranchUnknown")
    assert said.endswith("branches it has: 570 580 580-open")


def test_an_archive_without_drivers(node: Node) -> None:
    """No list at all is no unknown branch: the archive is out of reach."""
    node.archive()
    assert "Ubuntu's archive shows no NVIDIA driver" in fails(
        node, "driver", "RepositoryUnreachable"
    )


def secure_boot(node: Node, *, on: bool) -> None:
    path = node.write(SECURE_BOOT, "")
    path.write_bytes(bytes([6, 0, 0, 0, int(on)]))


def test_r72_secure_boot_takes_signed_modules(node: Node) -> None:
    """With prebuilt modules secure boot is no hindrance, and it is said."""
    secure_boot(node, on=True)
    assert "NOTE: secure boot is on" in works(node)


def test_r72_secure_boot_without_signed_modules(node: Node) -> None:
    """Modules built on the node could not be loaded: nothing is installed."""
    secure_boot(node, on=True)
    node.archive(DRIVER, HEADERS)
    assert "no signed modules of the branch 570" in fails(node, "driver", "SecureBoot")
    assert installed(node) == []


def test_r72_secure_boot_that_is_off(node: Node) -> None:
    """A UEFI machine without it builds its modules."""
    secure_boot(node, on=False)
    node.archive(DRIVER, HEADERS)
    assert "secure boot" not in works(node)


# What the kernel says when the module is loaded.

KERNEL_SAYS = {
    "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:00:07.0)": "BARUnassigned",
    "NVRM: installed in this system requires use of the NVIDIA open kernel modules.": (
        "NeedsOpenModules"
    ),
    "nvidia: module verification failed: Key was rejected by service": "SecureBoot",
    "Lockdown: modprobe: unsigned module loading is restricted (nvidia)": "SecureBoot",
    "NVRM: The NVIDIA Tesla M60 is supported through the NVIDIA 470.xx Legacy drivers.": (
        "BranchTooNew"
    ),
    "nvidia: probe of 0000:00:07.0 failed with error -1": "DriverRefused",
}


@pytest.mark.parametrize("words", KERNEL_SAYS)
def test_a_driver_that_refuses(node: Node, words: str) -> None:
    """The kernel's words decide about the cause, and are kept in the log."""
    node.play("refuses", f"{words}\n")
    fails(node, "driver", KERNEL_SAYS[words])
    assert words in node.read("var/log/capvco-gpu.log")


# Preflight.


def test_no_card(node: Node) -> None:
    """A stub, or a vGPU that is not attached: nothing is installed."""
    for path in (node.root / "sys/bus/pci/devices").glob("0000:00:07.0/*"):
        path.unlink()
    said = fails(node, "preflight", "NoCard")
    assert "a stub, which takes no driverVersion" in said
    assert installed(node) == []


def test_too_few_cards(node: Node) -> None:
    """One card of two is not enough."""
    node.ask("570", 2)
    assert fails(node, "preflight", "TooFewCards").startswith("1 NVIDIA card(s) on the PCI bus")


@pytest.mark.parametrize(
    ("cmdline", "said"),
    [
        ("BOOT_IMAGE=/vmlinuz root=LABEL=x", "the image lacks pci=realloc pci=nocrs"),
        ("root=/dev/vda1 pci=realloc pci=nocrs", "though the kernel was started with"),
        ("root=/dev/vda1 pci=nocrs,realloc", "though the kernel was started with"),
    ],
)
def test_no_address_for_the_card(node: Node, cmdline: str, said: str) -> None:
    """The symptom's words, and whether the image has what it needs; nothing is installed."""
    node.cards(1, bar=UNASSIGNED)
    node.write("proc/cmdline", f"{cmdline}\n")
    node.play("kernel.log", "pci 0000:00:07.0: BAR 1 [mem size 0x8]: can't assign; no space\n")
    words = fails(node, "preflight", "BARUnassigned")
    assert "NVRM: BAR1 is 0M @ 0x0" in words
    assert said in words
    assert "BAR 1 [mem size 0x8]" in node.read("var/log/capvco-gpu.log")
    assert installed(node) == []


# The container toolkit.


def test_mirrors(node: Node) -> None:
    """Key, packages and version may be others, by a file of the user's own."""
    node.write(
        "etc/capvco/gpu.d/mirror.env",
        "CAPVCO_TOOLKIT_KEY=https://mirror.example/key\n"
        "CAPVCO_TOOLKIT_PACKAGES=https://mirror.example/deb\n"
        "CAPVCO_TOOLKIT_VERSION=1.17.8-1\n",
    )
    works(node)
    assert "https://mirror.example/key" in node.played("calls")
    assert "] https://mirror.example/deb/$(ARCH) /" in node.read(
        "etc/apt/sources.list.d/nvidia-container-toolkit.list"
    )
    assert "nvidia-container-toolkit=1.17.8-1" in installed(node)
    assert "libnvidia-container1=1.17.8-1" in installed(node)


def test_a_list_of_ones_own(node: Node) -> None:
    """A mirror of another layout takes the whole line; a key may be a file."""
    node.write(
        "etc/capvco/gpu.d/mirror.env",
        "CAPVCO_TOOLKIT_KEY=/etc/capvco/key.gpg\n"
        "CAPVCO_TOOLKIT_LIST='deb https://mirror.example/ubuntu noble nvidia'\n",
    )
    (node.root / "etc/capvco/key.gpg").write_bytes(base64.b64decode("mQINBA=="))
    works(node)
    assert "curl" not in node.played("calls")
    assert node.read("etc/apt/sources.list.d/nvidia-container-toolkit.list") == (
        "deb https://mirror.example/ubuntu noble nvidia\n"
    )
    key = node.root / "usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
    assert key.read_bytes() == base64.b64decode("mQINBA==")


def test_a_key_that_is_a_page(node: Node) -> None:
    """A proxy that answers with a page is not believed."""
    node.play("key", "<html>log in</html>\n")
    assert "a proxy may have answered" in fails(node, "toolkit", "KeyInvalid")


def test_a_key_out_of_reach(node: Node) -> None:
    """The URL and the setting that changes it are named."""
    node.play("curl.failures", "99")
    said = fails(node, "toolkit", "RepositoryUnreachable")
    assert "https://nvidia.github.io/libnvidia-container/gpgkey" in said
    assert "CAPVCO_TOOLKIT_KEY" in said
    assert node.played("curl.failures").strip() == "94"


# R73, R74: verification.


@pytest.mark.parametrize(
    ("licence", "said"),
    [
        ("Unlicensed (Unrestricted)", "NOTE: vGPU licence: Unlicensed (Unrestricted): the work"),
        ("Licensed (Expiry: 2027-1-1)", "vGPU licence: Licensed (Expiry: 2027-1-1)"),
    ],
)
def test_r73_licence(node: Node, licence: str, said: str) -> None:
    """A guest of a mediated vGPU tells whether it has its licence."""
    node.play("query", f"    vGPU Software Licensed Product\n        License Status : {licence}\n")
    assert said in works(node)


def test_r73_no_licence_to_tell_of(node: Node) -> None:
    """A whole card needs none."""
    node.play("query", "        License Status : N/A\n")
    assert "vGPU licence" not in works(node)


def test_r74_fewer_than_the_bus_has(node: Node) -> None:
    """An exit status of 0 with fewer cards is a failure with three numbers."""
    node.ask("570", 2)
    node.cards(2, visible=1)
    said = fails(node, "verify", "TooFewCards")
    assert said.startswith("the driver shows 1 of 2 card(s) on the bus, 2 expected")


def test_r74_one_of_the_bus_is_missing(node: Node) -> None:
    """A card that the driver leaves out is a failure, even if enough are left."""
    node.cards(2, visible=1)
    said = fails(node, "verify", "TooFewCards")
    assert said.startswith("the driver shows 1 of 2 card(s) on the bus, 1 expected")


def test_r74_because_of_the_modules(node: Node) -> None:
    """R71: where the kernel says that a card needs the open modules, so does the cause."""
    node.cards(1, visible=0)
    node.play("kernel.log", "NVRM: requires use of the NVIDIA open kernel modules\n")
    assert "driverVersion to 570-open" in fails(node, "verify", "NeedsOpenModules")


def test_r74_more_than_asked_for(node: Node) -> None:
    """More is no failure, but worth a line."""
    node.cards(2)
    assert "NOTE: 2 cards are usable, and 1 expected" in works(node)


@pytest.mark.parametrize(
    ("code", "meaning"), [(9, "not loaded"), (12, "libnvidia-ml"), (18, "different versions")]
)
def test_nvidia_smi_fails(node: Node, code: int, meaning: str) -> None:
    """Its status is told in words."""
    node.play("smi.status", str(code))
    said = fails(node, "verify", "DriverNotUsable")
    assert f"nvidia-smi -L exits {code}" in said
    assert meaning in said


# The first boot: the entry of runcmd.


def test_boot_reports_success(node: Node) -> None:
    """One line in the marker, kept, in the log and on the console."""
    run = node.run("boot.sh")
    assert run.code == 0
    assert status(node) == "ok verify - branch=570 cards=1 bus=1\n"
    assert node.read("var/lib/capvco/gpu.status") == status(node)
    for place in ("dev/console", "var/log/capvco-gpu.log"):
        assert f"capvco: GPU step: {status(node).strip()}" in node.read(place)


def test_boot_reports_a_failure(node: Node) -> None:
    """Step, cause, numbers and words; and still 0, for kubeadm comes next."""
    node.ask("570", 2)
    node.cards(2, visible=1)
    run = node.run("boot.sh")
    assert run.code == 0
    assert status(node).startswith(
        "failed verify TooFewCards branch=570 cards=1 bus=2: the driver shows 1 of 2 card(s)"
    )


def test_boot_without_settings(node: Node) -> None:
    """A file that is missing, or says nonsense, is a failure like any other."""
    for text in ("", "CAPVCO_GPU_DRIVER=new\n", "CAPVCO_GPU_DRIVER=570\nCAPVCO_GPU_COUNT=x\n"):
        node.write("etc/capvco/gpu.env", text)
        assert node.run("boot.sh").code == 0
        assert status(node).startswith("failed settings SettingsInvalid branch=- cards=0 bus=1: ")


def test_boot_has_an_end(node: Node) -> None:
    """A step that hangs is ended, and the node joins."""
    node.settings["CAPVCO_GPU_TIMEOUT"] = "1"
    node.play("bin/modprobe", "#!/bin/sh\nsleep 60\n").chmod(0o755)
    assert node.run("boot.sh").code == 0
    assert status(node).startswith("failed driver TimedOut branch=- cards=0 bus=1: not done after")


def test_boot_that_crashes(node: Node) -> None:
    """A step that ends without a word is no success."""
    node.play("bin/modprobe", "#!/bin/sh\nkill -9 $PPID\n").chmod(0o755)
    assert node.run("boot.sh").code == 0
    assert status(node).startswith("failed driver Crashed ")


def test_boot_after_a_failure(node: Node) -> None:
    """A result of an earlier boot is not taken for this one's."""
    node.play("curl.failures", "5")
    node.run("boot.sh")
    assert status(node).startswith("failed toolkit RepositoryUnreachable")
    node.run("boot.sh")
    assert status(node).startswith("ok ")


def test_no_console(node: Node) -> None:
    """A console that takes nothing does not fail the step; the serial line is the next choice."""
    (node.root / "dev/console").unlink()
    (node.root / "dev/console").mkdir()
    node.write("dev/ttyS0", "")
    works(node)
    assert "capvco: verify: done" in node.read("dev/ttyS0")
    (node.root / "dev/ttyS0").unlink()
    works(node)


def test_r46_kubeadm_runs_whatever_happens(node: Node, tmp_path: Path) -> None:
    """R45, R46: as cloud-init runs it, one script, and with `set -e` of a user's before it."""
    node.archive()
    script = tmp_path / "runcmd"
    joined = tmp_path / "joined"
    script.write_text(
        f"#!/bin/sh\nset -e\n'/bin/bash' '{SCRIPTS / 'boot.sh'}'\ntrue && echo success > {joined}\n"
    )
    node.run(str(script))
    assert joined.read_text() == "success\n"
    assert status(node).startswith("failed driver RepositoryUnreachable")
