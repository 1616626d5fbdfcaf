"""The runtime ``nvidia`` in containerd, judged by what the real containerd then has.

Real programs throughout: several versions of containerd, several of nvidia-ctk. Whatever main file
an image has, the runtime is effective afterwards and no other setting has changed, or the step
fails with a cause and everything is as it was.
"""

import copy
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from tests.node.machine import Node

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

V2 = "io.containerd.grpc.v1.cri"
V3 = "io.containerd.cri.v1.runtime"
IMAGES = "io.containerd.cri.v1.images"
FOREIGN_V2 = f"""\
# kept by hand
version = 2
root = "/data/containerd"

[plugins."{V2}"]
  sandbox_image = "registry.example/pause:3.10" # ours
  [plugins."{V2}".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."{V2}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{V2}".containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins."{V2}".containerd.runtimes.gvisor]
    runtime_type = "io.containerd.runsc.v1"

[metrics]
  address = "127.0.0.1:1338"
"""
FOREIGN_V3 = f"""\
version = 3
root = '/data/containerd'

[plugins.'{IMAGES}'.registry]
  config_path = '/etc/containerd/certs.d'
[plugins.'{V3}'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'{V3}'.containerd.runtimes.runc.options]
  SystemdCgroup = true
[plugins.'{V3}'.containerd.runtimes.gvisor]
  runtime_type = 'io.containerd.runsc.v1'
"""
V1 = """\
[plugins.cri]
  sandbox_image = "registry.example/pause:3.10"
  [plugins.cri.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.cri.containerd.runtimes.runc.options]
      SystemdCgroup = true
"""
DEBIAN = f"""\
version = 2

[plugins]
  [plugins."{V2}"]
    [plugins."{V2}".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd"
"""
DOCKER = """\
#   Copyright 2018-2022 Docker Inc.

disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#[grpc]
#  address = "/run/containerd/containerd.sock"
"""
MAINS: Mapping[str, str | None] = {
    "none": None,
    "empty": "",
    "comments only": "# nothing here\n\n",
    "version only": "version = 2\n",
    "no version": V1,
    "version 1": f"version = 1\n{V1}",
    "Debian's": DEBIAN,
    "Docker's, CRI disabled": DOCKER,
    "CRI disabled among others": (
        f'version = 2\ndisabled_plugins = [\n  "io.containerd.snapshotter.v1.zfs", # no\n'
        f'  "{V2}",\n]\n'
    ),
    "foreign settings": FOREIGN_V2,
    "imports empty": f"imports = []\n{FOREIGN_V2}",
    "imports another file": f'imports = ["/nowhere/*.toml"]\n{FOREIGN_V2}',
    "imports the folder": f'imports = ["ROOT/etc/containerd/conf.d/*.toml"]\n{FOREIGN_V2}',
    "imports it by a relative path": f'imports = ["conf.d/*.toml"]\n{FOREIGN_V2}',
    "imports over several lines": (
        f"imports = [ # two\n  '/nowhere/*.toml',\n  \"/elsewhere/a.toml\", # [a]\n]\n{FOREIGN_V2}"
    ),
    "version 3": "version = 3\n",
    "foreign settings, version 3": FOREIGN_V3,
    "version 4": "version = 4\n",
}


def effective(node: Node) -> dict[str, Any]:
    return tomllib.loads(node.dump())


def cri(config: Mapping[str, Any]) -> Mapping[str, Any]:
    plugins: Mapping[str, Mapping[str, Any]] = config["plugins"]
    return plugins[V3] if V3 in plugins else plugins[V2]


def runtimes(config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cri(config)["containerd"]["runtimes"]
    return found


def without_ours(config: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the step may change."""
    config = copy.deepcopy(config)
    if config["plugins"].keys() & {V2, V3}:
        runtimes(config).pop("nvidia", None)
    return {k: v for k, v in config.items() if k not in ("imports", "disabled_plugins", "version")}


def write_main(node: Node, main: str | None) -> None:
    if main is not None:
        node.write("etc/containerd/config.toml", main.replace("ROOT", str(node.root)))


def readable(node: Node) -> bool:
    """Say whether this containerd can read the main file at all."""
    try:
        node.dump()
    except Exception:  # noqa: BLE001 - any refusal is the answer
        return False
    return True


@pytest.mark.parametrize("kind", MAINS)
def test_any_main_file(any_node: Node, kind: str) -> None:
    """The runtime is effective, the rest is as it was; or the main file could never be read."""
    node, main = any_node, MAINS[kind]
    write_main(node, main)
    spoken = main is not None and any(
        line and not line.startswith("#") for line in main.splitlines()
    )
    if spoken and not readable(node):
        refused = node.run("containerd.sh")
        assert refused.code == 1
        assert "ConfigUnreadable: containerd cannot read" in refused.output
        assert node.main.read_text() == (main or "").replace("ROOT", str(node.root))
        assert not node.dropin.exists()
        return
    before = effective(node) if spoken else None
    run = node.run("containerd.sh")
    assert run.code == 0, f"{run.output}\n{node.read('var/log/capvco-gpu.log')}"
    after = effective(node)
    nvidia, runc = runtimes(after)["nvidia"], runtimes(after)["runc"]
    assert nvidia["runtime_type"] == "io.containerd.runc.v2"
    assert nvidia["options"]["BinaryName"].endswith("nvidia-container-runtime")
    assert nvidia["options"].get("SystemdCgroup") == runc["options"].get("SystemdCgroup")
    assert not any("cri" in name.split(".") for name in after["disabled_plugins"])
    assert cri(after)["containerd"]["default_runtime_name"] == "runc"
    if before is None:
        assert runc["options"]["SystemdCgroup"] is True
    else:
        kept = {name: after["plugins"][name] for name in before["plugins"]}
        assert without_ours({**after, "plugins": kept}) == without_ours(before)
    text = node.main.read_text()
    assert text.count("imports") == 1
    assert node.played("restarts") == "restarted\n"


@pytest.mark.parametrize("kind", MAINS)
def test_second_run_changes_nothing(any_node: Node, kind: str) -> None:
    """Neither a file nor the daemon is touched again."""
    node = any_node
    write_main(node, MAINS[kind])
    if node.run("containerd.sh").code:
        pytest.skip("this containerd cannot read this main file")
    files = {path: path.read_bytes() for path in node.main.parent.rglob("*") if path.is_file()}
    again = node.run("containerd.sh")
    assert again.code == 0, again.output
    found = {path: path.read_bytes() for path in node.main.parent.rglob("*") if path.is_file()}
    assert found == files
    assert node.played("restarts") == "restarted\n"
