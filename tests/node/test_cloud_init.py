"""The user data of a GPU worker, judged by cloud-init itself."""

import json
import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml

from capvco.bootstrap.userdata import Driver, Instance, fitted, render
from tests.node.binaries import CLOUD_INIT, Unavailable
from tests.support.bootstrap_data import HOSTNAME, NAMES, recorded
from tests.unit.bootstrap.test_userdata import KUBEADM_JOIN, LIST, cloud_config, join

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cloud_init() -> Path:
    """The folder that cloud-init's package unpacks to."""
    try:
        return CLOUD_INIT.path() / "usr/lib/python3/dist-packages"
    except Unavailable as error:
        pytest.skip(f"cloud-init cannot be had here: {error}")


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """The user data as the platform hands it on: JSON, which is YAML."""
    instance = Instance("worker-1", "vco://x/y/z", {"a": "b"}, Driver("570", 1))
    rendered = render(cloud_config(join("v1beta4", LIST)), "cloud-config", instance)
    path = tmp_path / "user-data"
    path.write_text("#cloud-config\n" + json.dumps(rendered))
    return path


def python(cloud_init: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/usr/bin/python3", "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(cloud_init)},
        capture_output=True,
        text=True,
        check=False,
    )


def modules(cloud_init: Path) -> None:
    """Skip where the system's Python lacks what cloud-init imports."""
    needed = "import cloudinit.config.schema, cloudinit.config.cc_runcmd, jsonschema"
    done = python(cloud_init, needed)
    if done.returncode:
        pytest.skip(f"cloud-init does not run here: {done.stderr.strip().splitlines()[-1]}")


VALIDATE = (
    "import sys, json, yaml; from cloudinit.config import schema;"
    "schema.validate_cloudconfig_schema("
    "yaml.safe_load(open(sys.argv[1])), schema.get_schema(), strict=True)"
)


def test_schema(cloud_init: Path, document: Path) -> None:
    """Its own schema finds nothing wrong; a document that is wrong it does find."""
    modules(cloud_init)
    program = VALIDATE
    done = python(cloud_init, program, str(document))
    assert done.returncode == 0, done.stderr
    broken = yaml.safe_load(document.read_text())
    broken["runcmd"].append({"a": "b"})
    document.write_text("#cloud-config\n" + json.dumps(broken))
    assert "runcmd" in python(cloud_init, program, str(document)).stderr


WRITE_FILES = (
    "import sys, yaml; from cloudinit import util; from cloudinit.config import cc_write_files;"
    "config = yaml.safe_load(open(sys.argv[1]));"
    "files = [dict(f, path=sys.argv[2] + f['path'], owner='root:root')"
    " for f in config['write_files']];"
    "util.chownbyname = lambda *a, **k: None;"
    "cc_write_files.write_files('test', files, 'root:root')"
)


def test_packed_files_are_the_same_files(cloud_init: Path, tmp_path: Path) -> None:
    """What is packed to fit, kubeadm's configuration among it, is unpacked to the same bytes."""
    modules(cloud_init)
    instance = Instance(HOSTNAME, "vco://x/y/z", {"a": "b"}, None, "v1.36.3")
    plain = render(recorded("init-v1.36.3"), "cloud-config", instance)
    packed = fitted(plain, len(msgspec.json.encode(plain)) - 1)
    new = [e for e in packed["write_files"] if e not in plain["write_files"]]
    assert "/run/kubeadm/kubeadm.yaml" in [entry["path"] for entry in new]
    written = []
    for name, document in (("plain", plain), ("packed", packed)):
        path, root = tmp_path / f"{name}.yaml", tmp_path / name
        path.write_text("#cloud-config\n" + json.dumps(document))
        done = python(cloud_init, WRITE_FILES, str(path), str(root))
        assert done.returncode == 0, done.stderr
        files = (file for file in root.rglob("*") if file.is_file())
        written.append({f.relative_to(root): (f.read_bytes(), f.stat().st_mode) for f in files})
    assert written[0] == written[1]
    assert len(written[0]) > 15


def test_runcmd_and_files(cloud_init: Path, document: Path, tmp_path: Path) -> None:
    """cloud-init's own code makes the script and the files: kubeadm's line is byte for byte."""
    modules(cloud_init)
    program = (
        "import sys, yaml; from cloudinit import util; from cloudinit.config import cc_write_files;"
        "config = yaml.safe_load(open(sys.argv[1]));"
        "files = [dict(f, path=sys.argv[2] + f['path'], owner='root:root')"
        " for f in config['write_files'] if f['path'].startswith(('/opt', '/etc/capvco'))];"
        "util.chownbyname = lambda *a, **k: None;"
        "cc_write_files.write_files('test', files, 'root:root');"
        "print(util.shellify(config['runcmd']))"
    )
    done = python(cloud_init, program, str(document), str(tmp_path / "root"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert KUBEADM_JOIN in lines
    step = lines.index("'/bin/bash' '/opt/capvco/gpu/boot.sh'")
    assert step == lines.index(KUBEADM_JOIN) - 1
    boot = tmp_path / "root/opt/capvco/gpu/boot.sh"
    assert boot.read_text().startswith("#!/bin/bash\n")
    assert boot.stat().st_mode & 0o777 == 0o755
    settings = (tmp_path / "root/etc/capvco/gpu.env").read_text()
    assert re.search(r"^CAPVCO_GPU_DRIVER=570$", settings, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_bootstrap_provider_writes(cloud_init: Path, name: str, tmp_path: Path) -> None:
    """Its schema takes what becomes of it, and its script has kubeadm's line byte for byte."""
    modules(cloud_init)
    instance = Instance(HOSTNAME, "vco://x/y/z", {"a": "b"}, Driver("570", 1), "v1.36.3")
    rendered = render(recorded(name), "cloud-config", instance)
    path = tmp_path / "user-data"
    path.write_text("#cloud-config\n" + json.dumps(rendered))
    done = python(cloud_init, VALIDATE, str(path))
    assert done.returncode == 0, done.stderr
    program = (
        "import sys, yaml; from cloudinit import util;"
        "print(util.shellify(yaml.safe_load(open(sys.argv[1]))['runcmd']))"
    )
    lines = python(cloud_init, program, str(path)).stdout.splitlines()
    (line,) = (text for text in lines if text.startswith("kubeadm "))
    verb = "init" if name.startswith("init") else "join"
    file = "kubeadm" if verb == "init" else "kubeadm-join-config"
    verbosity = "" if name.startswith("plain") else "--v 5"
    assert line == (
        f"kubeadm {verb} --config /run/kubeadm/{file}.yaml {verbosity}"
        " && echo success > /run/cluster-api/bootstrap-success.complete"
    )
    assert lines[lines.index(line) - 2 : lines.index(line)] == [
        "'/bin/bash' '/opt/capvco/kubernetes/kubernetes.sh' 'boot'",
        "'/bin/bash' '/opt/capvco/gpu/boot.sh'",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_as_cloud_init_would_fill_it_in(cloud_init: Path, name: str, tmp_path: Path) -> None:
    """Its own template engine makes of the document what ours does, but for blanks at line ends.

    It drops the newline after ``{% endraw %}``, and so joins two lines; ours keeps it.
    """
    modules(cloud_init)
    path = tmp_path / "template"
    path.write_bytes(recorded(name))
    program = (
        "import sys, json, yaml; from cloudinit import templater;"
        "data = {'ds': {'meta_data': {'local_hostname': sys.argv[2]}}};"
        "text = templater.render_string(open(sys.argv[1]).read(), data);"
        "print(json.dumps(yaml.safe_load(text)))"
    )
    done = python(cloud_init, program, str(path), HOSTNAME)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    ours = render(recorded(name), "cloud-config", Instance(HOSTNAME, "vco://x/y/z", {}))
    for document in (theirs, ours):
        document["write_files"] = [
            {**entry, "content": [line.rstrip() for line in entry["content"].splitlines()]}
            for entry in document["write_files"]
            if not entry["path"].startswith("/run/kubeadm/")
        ]
    assert ours == theirs
