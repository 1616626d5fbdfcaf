"""The demo shows the user data of a GPU worker when asked, and ends as always."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(600)]


def test_shown_on_request(tmp_path: Path) -> None:
    """In a form for people on the screen, and whole in a file."""
    directory = tmp_path / "demo"
    command = [sys.executable, "-m", "capvco", "demo", "--directory", str(directory)]
    done = subprocess.run(
        [*command, "--show-user-data"], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CAPVCO_GPU_DRIVER=570" in done.stdout
    assert "gpu-model=nvidia-a100" in done.stdout
    document = yaml.safe_load((directory / "user-data.yaml").read_text())
    steps = [command[1] for command in document["runcmd"][:2]]
    assert steps == ["/opt/capvco/kubernetes/kubernetes.sh", "/opt/capvco/gpu/boot.sh"]
    assert document["runcmd"][2].startswith("kubeadm join --config ")
