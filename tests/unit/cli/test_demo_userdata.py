"""The demo shows what a GPU worker's VM got."""

import json

import yaml

from capvco.bootstrap.userdata import Driver, Instance, render
from capvco.cli.demo.objects import BOOTSTRAP, Access, Wish, manifests
from capvco.cli.demo.userdata import readable, size

ACCESS = Access(api_url="a", iam_url="b", customer_id="c", client_id="d", client_secret="e")


def bootstrap_data() -> bytes:
    """Return the bootstrap data that the demo's user applies."""
    found = map(json.loads, manifests(Wish(gpu_type="x", machines=1), ACCESS).split("\n---\n"))
    (secret,) = (one for one in found if one["metadata"]["name"] == BOOTSTRAP)
    return str(secret["stringData"]["value"]).encode()


def test_a_worker_as_people_know_it() -> None:
    """Kubelet arguments, both steps and kubeadm's line can be read in it; packed files are cut."""
    instance = Instance("w-1", "vco://x", {"a": "b"}, Driver("570", 1), "v1.36.3")
    document = render(bootstrap_data(), "cloud-config", instance)
    shown = readable(document)
    assert yaml.safe_load(shown)["runcmd"] == document["runcmd"]
    for line in (
        "        - name: provider-id",
        "          value: vco://x",
        "        name: w-1",
        "      CAPVCO_GPU_DRIVER=570",
        "      CAPVCO_KUBERNETES_VERSION=v1.36.3",
    ):
        assert line in shown.splitlines()
    assert size(document) > 20_000
    assert len(shown) < 6_000


def test_nothing_but_packed_content_is_cut() -> None:
    """What is short, or not packed, is shown whole."""
    files = [{"content": "x" * 99}, {"encoding": "b64", "content": "eA=="}, {"path": "/x"}]
    document = {"write_files": files, "users": [{"name": "ü"}]}
    assert yaml.safe_load(readable(document)) == document
    assert "ü" in readable(document)
