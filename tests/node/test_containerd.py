"""The runtime ``nvidia`` in containerd, judged by what the real containerd then has.

Real programs throughout: several versions of containerd, several of nvidia-ctk. Whatever main file
an image has, the runtime is effective afterwards and no other setting has changed, or the step
fails with a cause and everything is as it was.
"""

import copy
import os
import subprocess
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
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
    if kind == "imports the folder":
        assert text == (main or "").replace("ROOT", str(node.root))
    assert node.played("restarts") == "restarted\n"
    _run_again(node)


def _run_again(node: Node) -> None:
    """A second run touches neither a file nor the daemon."""
    files = etc(node)
    again = node.run("containerd.sh")
    assert again.code == 0, again.output
    assert etc(node) == files
    assert node.played("restarts") == "restarted\n"


def etc(node: Node) -> dict[str, bytes]:
    folder = node.main.parent
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_drop_in_is_small(any_node: Node) -> None:
    """R60: the drop-in lies in the imported folder and has the CRI plugin's part, nothing else."""
    node = any_node
    write_main(node, 'version = 2\nroot = "/data"\n')
    assert node.run("containerd.sh").code == 0
    found = tomllib.loads(node.dropin.read_text())
    assert found.keys() == {"version", "plugins"}
    assert found["plugins"].keys() <= {V2, V3}
    assert "/data" not in node.dropin.read_text()


def test_other_drop_ins_stay_in_force(any_node: Node) -> None:
    """What another drop-in says of the same plugin is not replaced by ours."""
    node = any_node
    write_main(node, f'imports = ["{node.dropin.parent}/*.toml"]\n{FOREIGN_V2}')
    node.write(
        "etc/containerd/conf.d/10-mine.toml",
        f'version = 2\n[plugins."{V2}"]\n  max_concurrent_downloads = 17\n',
    )
    before = effective(node)
    run = node.run("containerd.sh")
    assert run.code == 0, run.output
    assert without_ours(effective(node)) == without_ours(before)
    assert "max_concurrent_downloads = 17" in node.dump()


def test_a_stale_drop_in_is_replaced(any_node: Node) -> None:
    """A drop-in for another schema, or without the runtime, is not taken for one that works."""
    node = any_node
    write_main(node, FOREIGN_V2)
    node.write(
        "etc/containerd/conf.d/99-nvidia.toml",
        f'version = 2\n[plugins."{V2}"]\n  sandbox_image = "old.example/pause:1"\n',
    )
    node.main.write_text(f'imports = ["{node.dropin}"]\n{FOREIGN_V2}')
    run = node.run("containerd.sh")
    assert run.code == 0, run.output
    assert "nvidia" in runtimes(effective(node))
    assert "old.example" not in node.dump()
    assert "registry.example/pause:3.10" in node.dump()


def with_runtime() -> str:
    """Return a main file that has the runtime."""
    table = f'plugins."{V2}".containerd.runtimes.nvidia'
    return (
        f'{FOREIGN_V2}[{table}]\nruntime_type = "io.containerd.runc.v2"\n[{table}.options]\n'
        'BinaryName = "/usr/bin/nvidia-container-runtime"\nSystemdCgroup = true\n'
    )


@pytest.mark.parametrize(("age", "restarts"), [(60, "restarted\n"), (-60, "")])
def test_a_daemon_that_is_older_than_its_settings(node: Node, age: int, restarts: str) -> None:
    """It is restarted: somebody wrote the runtime, and the running daemon has never read it."""
    node.toolkit_is_there()
    write_main(node, with_runtime())
    socket = node.root / "run/containerd/containerd.sock"
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.touch()
    written = node.main.stat().st_mtime
    os.utime(socket, (written - age, written - age))
    assert node.run("containerd.sh").code == 0
    assert node.played("restarts") == restarts


def test_a_runtime_in_the_main_file_is_taken(any_node: Node) -> None:
    """An image that has the runtime in its main file is left alone."""
    node = any_node
    write_main(node, with_runtime())
    files = etc(node)
    assert node.run("containerd.sh").code == 0
    assert etc(node) == files
    assert node.played("restarts") == ""


def test_a_runtime_without_systemd_cgroups_is_not(any_node: Node) -> None:
    """R62: a runtime that lost SystemdCgroup is repaired: pods under it would die at random."""
    node = any_node
    write_main(node, FOREIGN_V2)
    table = f'plugins."{V2}".containerd.runtimes.nvidia'
    node.main.write_text(
        f'{FOREIGN_V2}[{table}]\nruntime_type = "io.containerd.runc.v2"\n[{table}.options]\n'
        'BinaryName = "/usr/bin/nvidia-container-runtime"\n'
    )
    run = node.run("containerd.sh")
    assert run.code == 0, run.output
    assert runtimes(effective(node))["nvidia"]["options"]["SystemdCgroup"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="containerd starts as root only")
@pytest.mark.parametrize("kind", ["none", "no version", "foreign settings"])
def test_the_daemon_starts_with_it(any_node: Node, tmp_path: Path, kind: str) -> None:
    """The real daemon boots with the result, and its CRI plugin has the runtime."""
    node = any_node
    write_main(node, MAINS[kind])
    assert node.run("containerd.sh").code == 0
    log = tmp_path / "log"
    places = (f"--root={tmp_path}/r", f"--state={tmp_path}/s", f"--address={tmp_path}/c.sock")
    with log.open("w") as stderr:
        daemon = subprocess.Popen(
            [str(node.containerd), f"--config={node.main}", *places], stderr=stderr
        )
    try:
        until = time.monotonic() + 120
        while "successfully booted" not in log.read_text():
            assert daemon.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
    finally:
        daemon.terminate()
        daemon.wait()
    told = [line for line in log.read_text().splitlines() if "cri plugin" in line.lower()]
    assert any("nvidia-container-runtime" in line for line in told)


# What goes wrong: a cause, and everything as it was.


def failed(node: Node, cause: str) -> str:
    """Run the step; it fails with the cause, and leaves the configuration as it was."""
    files = etc(node) if node.main.parent.exists() else {}
    run = node.run("containerd.sh")
    assert run.code == 1, run.output
    assert f"capvco: ERROR: containerd: {cause}: " in run.output
    assert (etc(node) if node.main.parent.exists() else {}) == files
    return run.output


def test_broken_main_file(any_node: Node) -> None:
    """The message has containerd's own words, with the line."""
    write_main(any_node, "version = 2\nroot = [\n")
    assert "containerd cannot read" in failed(any_node, "ConfigUnreadable")
    assert any_node.played("restarts") == ""


def test_containerd_that_does_not_start(any_node: Node) -> None:
    """The daemon runs again with its old configuration: the node can still join."""
    write_main(any_node, FOREIGN_V2)
    any_node.play("containerd.breaks", "")
    assert "left as it was" in failed(any_node, "ContainerdRefused")
    assert any_node.played("restarts") == "restarted\n" * 2
    assert (any_node.play_folder / "active").exists()


@pytest.mark.parametrize("main", [None, FOREIGN_V2])
@pytest.mark.parametrize("says", ["exit 3", "exit 0"])
def test_a_tool_that_does_nothing(node: Node, main: str | None, says: str) -> None:
    """An exit status of nvidia-ctk says nothing: what containerd has counts."""
    write_main(node, main)
    node.play("bin/nvidia-ctk", f"#!/bin/sh\n{says}\n").chmod(0o755)
    assert 'no runtime for "nvidia" is configured' in failed(node, "RuntimeNotEffective")
    assert node.played("restarts") == ""


def a_tool_that_writes(node: Node, *, systemd: bool) -> None:
    """Play an nvidia-ctk whose runtime has no type, and perhaps lost runc's SystemdCgroup."""
    node.toolkit_is_there()
    table = f'[plugins."{V2}".containerd.runtimes'
    kept = "SystemdCgroup = true\n" if systemd else ""
    text = (
        f'version = 2\n{table}.runc]\nruntime_type = "io.containerd.runc.v2"\n'
        f"{table}.runc.options]\nSystemdCgroup = true\n{table}.nvidia]\n"
        f'{table}.nvidia.options]\nBinaryName = "/usr/bin/nvidia-container-runtime"\n{kept}'
    )
    node.play("made.toml", text)
    (node.bin / "nvidia-ctk").unlink()
    node.play(
        "bin/nvidia-ctk",
        "#!/bin/sh\nfor word; do\n  case $word in\n"
        "    --help) echo --drop-in-config; exit 0 ;;\n"
        '    --drop-in-config=*) cp "$PLAY/made.toml" "${word#*=}" ;;\n  esac\ndone\n',
    ).chmod(0o755)


def test_r61_a_runtime_without_a_type(node: Node) -> None:
    """What some versions of the tool leave out is added: a runtime without a type is none."""
    a_tool_that_writes(node, systemd=True)
    run = node.run("containerd.sh")
    assert run.code == 0, run.output
    assert runtimes(effective(node))["nvidia"]["runtime_type"] == "io.containerd.runc.v2"


def test_r62_a_tool_that_loses_systemd_cgroups(node: Node) -> None:
    """A runtime that does not do as runc does is refused, with that cause."""
    a_tool_that_writes(node, systemd=False)
    assert "has lost SystemdCgroup" in failed(node, "RuntimeNotEffective")


def test_a_tool_that_loses_a_setting(node: Node) -> None:
    """A drop-in that would replace somebody's settings is taken back, and the setting is named."""
    a_tool_that_writes(node, systemd=True)
    write_main(node, FOREIGN_V2)
    assert "a setting would be lost: " in failed(node, "RuntimeNotEffective")
    assert node.played("restarts") == ""


def test_no_runtime_program(node: Node) -> None:
    """A runtime whose program is not there would fail each pod."""
    node.toolkit_is_there()
    (node.root / "usr/bin/nvidia-container-runtime").unlink()
    write_main(node, DEBIAN)
    said = failed(node, "RuntimeNotEffective")
    assert "/usr/bin/nvidia-container-runtime of the runtime nvidia does not exist" in said


def test_no_containerd(node: Node) -> None:
    """Without containerd there is nothing to configure, and nothing is."""
    (node.bin / "containerd").unlink()
    assert "containerd is not installed" in failed(node, "NoContainerd")


@pytest.mark.parametrize(
    ("says", "fails"),
    [('{"runtimes": {"runc": {}}}', True), ('{"runtimes": {"nvidia": {}}}', False), (None, False)],
)
def test_the_running_daemon_is_asked(node: Node, says: str | None, fails: object) -> None:
    """Where crictl is, the daemon itself must list the runtime; no answer proves nothing."""
    node.toolkit_is_there()
    write_main(node, DEBIAN)
    body = "exit 1" if says is None else f"echo '{says}'"
    node.play("bin/crictl", f"#!/bin/sh\n{body}\n").chmod(0o755)
    run = node.run("containerd.sh")
    assert run.code == (1 if fails else 0)
    assert ("the running containerd does not list" in run.output) == bool(fails)
