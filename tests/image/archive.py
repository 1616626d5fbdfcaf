"""An archive of stand-in packages, as apt reads it from a folder: driver, toolkit, Kubernetes.

The container toolkit's nvidia-ctk is the real one; the rest answer to their names.
"""

import base64
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

VERSION = "570.86.15"
KUBERNETES = "v1.35.8"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
NVIDIA_SMI = "#!/bin/sh\necho 'GPU 0: a card (UUID: GPU-0)'\n"
RUNTIME = "#!/bin/sh\nexit 0\n"


class Package(Struct, frozen=True, kw_only=True):
    """One package."""

    name: str
    version: str = "1.0"
    depends: str = ""
    files: Mapping[str, bytes] = {}
    """Path and content; all of them executable."""
    configure: str = "true"
    """Shell, after it was unpacked."""


def write_package(package: Package, folder: Path) -> Path:
    """Write the .deb."""
    tree = folder / f"{package.name}.tree"
    for path, content in package.files.items():
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755)
    control = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": "amd64",
        "Maintainer": "Tests <tests@example.invalid>",
        "Depends": package.depends,
        "Description": "a stand-in",
    }
    (tree / "DEBIAN").mkdir(parents=True)
    lines = (f"{key}: {value}\n" for key, value in control.items() if value)
    (tree / "DEBIAN" / "control").write_text("".join(lines))
    postinst = tree / "DEBIAN" / "postinst"
    postinst.write_text(f"#!/bin/sh\nset -e\n{package.configure}\n")
    postinst.chmod(0o755)
    target = folder / f"{package.name}_{package.version}_amd64.deb"
    _run("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(target))
    return target


def write_archive(packages: tuple[Package, ...], folder: Path) -> None:
    """Write a flat archive of them into the folder."""
    folder.mkdir(parents=True)
    for package in packages:
        write_package(package, folder)
    listed = _run("dpkg-scanpackages", "--multiversion", ".", cwd=folder)
    (folder / "Packages").write_text(listed)


def kernel_module(version: str = VERSION) -> bytes:
    """Return what modinfo takes for NVIDIA's kernel module of a version."""
    fields = (f"version={version}", "name=nvidia", "license=NVIDIA")
    source = '.section .modinfo,"a"\n' + "".join(f'.asciz "{field}"\n' for field in fields)
    with tempfile.NamedTemporaryFile() as target:
        subprocess.run(["as", "-o", target.name, "-"], input=source.encode(), check=True)
        return Path(target.name).read_bytes()


def driver(kernel: str) -> Package:
    """Return a driver that a user brings, with its module."""
    module = f"/lib/modules/{kernel}/updates/nvidia.ko"
    files = {"/usr/bin/nvidia-smi": NVIDIA_SMI.encode(), module: kernel_module()}
    return Package(name="nvidia-guest-driver", version=VERSION, files=files)


def installer(kernel: str) -> str:
    """Return a driver's self-extracting installer; it works for one kernel, and as it is told."""
    module = base64.b64encode(kernel_module()).decode()
    return f"""\
#!/bin/sh
set -e
[ "$*" = "--silent --kernel-name={kernel}" ] || {{ echo "asked: $*"; exit 1; }}
mkdir -p /lib/modules/{kernel}/updates
echo {module} | base64 -d >/lib/modules/{kernel}/updates/nvidia.ko
printf '#!/bin/sh\\n' >/usr/bin/nvidia-smi
chmod +x /usr/bin/nvidia-smi
"""


def build_tools(kernel: str) -> tuple[Package, ...]:
    """Return what an installer needs to build its module."""
    return tuple(Package(name=name) for name in (f"linux-headers-{kernel}", "gcc", "make"))


def ubuntu_driver(kernel: str) -> tuple[Package, ...]:
    """Return a branch as Ubuntu's archive has it: user space, and prebuilt modules."""
    return (
        Package(
            name="nvidia-driver-570-server",
            version=VERSION,
            files={"/usr/bin/nvidia-smi": NVIDIA_SMI.encode()},
        ),
        Package(
            name=f"linux-modules-nvidia-570-server-{kernel}",
            version=VERSION,
            files={f"/lib/modules/{kernel}/updates/nvidia.ko": kernel_module()},
            configure=f"depmod {kernel}",
        ),
    )


def toolkit(nvidia_ctk: Path) -> tuple[Package, ...]:
    """Return the container toolkit's four packages."""
    files = {
        "/usr/bin/nvidia-ctk": nvidia_ctk.read_bytes(),
        "/usr/bin/nvidia-container-runtime": RUNTIME.encode(),
    }
    return (
        Package(name="nvidia-container-toolkit", version="1.20.2", files=files),
        *(
            Package(name=name, version="1.20.2")
            for name in (
                "nvidia-container-toolkit-base",
                "libnvidia-container-tools",
                "libnvidia-container1",
            )
        ),
    )


def kubernetes(version: str) -> tuple[Package, ...]:
    """Return kubeadm, kubelet and kubectl of a version, as pkgs.k8s.io names them."""
    plain = version.removeprefix("v")
    answers = {
        "kubeadm": f'case "$*" in *images*) echo registry.k8s.io/pause:3.10.1 ;; '
        f"*) echo {version} ;; esac",
        "kubelet": f"echo Kubernetes {version}",
        "kubectl": f"echo {version}",
        "crictl": "exit 1",
    }
    names = {"crictl": "cri-tools"}
    return tuple(
        Package(
            name=names.get(program, program),
            version=f"{plain}-1.1",
            files={f"/usr/bin/{program}": f"#!/bin/sh\n{answer}\n".encode()},
        )
        for program, answer in answers.items()
    )


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
