"""kubeadm's configuration in whatever packing, and the ones that cannot be completed."""

import base64
import gzip
import json
import random
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capvco.bootstrap.commands import calls_kubeadm, config_paths
from capvco.bootstrap.content import LIMIT, Unreadable, packing
from capvco.bootstrap.userdata import Document, Instance, UserDataError, render
from tests.support.properties import always
from tests.unit.bootstrap.test_userdata import (
    INSTANCE,
    KUBEADM_JOIN,
    LIST,
    PLAIN,
    SECRET,
    files,
    join,
)

PATH = "/run/kubeadm/kubeadm-join-config.yaml"
BASE64 = ("b64", "base64", "BASE64", " base64 ")
GZIP_BASE64 = ("gz+b64", "gz+base64", "gzip+b64", "gzip+base64", "Gzip+Base64")
GZIP = ("gz", "gzip")


def zipped(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def packed(text: str, encoding: str) -> dict[str, str]:
    data = text.encode()
    content = base64.b64encode(data).decode() if encoding in BASE64 else zipped(data)
    return {"path": PATH, "encoding": encoding, "content": content}


def document(*entries: object, line: object = KUBEADM_JOIN) -> bytes:
    found = {"write_files": list(entries), "runcmd": [line]}
    return b"#cloud-config\n" + yaml.safe_dump(found).encode()


def completed(data: bytes) -> Document:
    found: Document = render(data, "cloud-config", INSTANCE)["write_files"][0]
    return found


def refusal(entry: object, line: object = KUBEADM_JOIN) -> str:
    with pytest.raises(UserDataError) as caught:
        render(document(entry, line=line), "cloud-config", PLAIN)
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("encoding", [*BASE64, *GZIP_BASE64])
def test_completed_and_packed_again(encoding: str) -> None:
    """Provider id and labels are not lost in a packed file, which stays packed as it was."""
    text = join("v1beta4", LIST)
    after = completed(document(packed(text, encoding)))
    plain = completed(document({"path": PATH, "content": text}))
    assert after["encoding"] == encoding
    data = base64.b64decode(after["content"], validate=True)
    assert (data if encoding in BASE64 else gzip.decompress(data)).decode() == plain["content"]
    assert INSTANCE.provider_id in plain["content"]


def test_base64_in_lines() -> None:
    """As tools write it, and as the bootstrap provider hands it on."""
    entry = packed(join("v1beta4", LIST), "base64")
    entry["content"] = base64.encodebytes(base64.b64decode(entry["content"])).decode()
    assert INSTANCE.provider_id.encode() in base64.b64decode(completed(document(entry))["content"])


@pytest.mark.parametrize("encoding", ["text/plain", "", None, "rot13", 5])
def test_what_is_plain_text_to_cloud_init(encoding: object) -> None:
    """It takes what it does not know for text, and so it is."""
    entry = {"path": PATH, "encoding": encoding, "content": join("v1beta4", LIST)}
    assert INSTANCE.provider_id in completed(document(entry))["content"]


def test_by_what_it_is_wherever_it_is() -> None:
    """A configuration that kubeadm is not seen to read is completed too."""
    entry = packed(join("v1beta4", LIST), "gz+b64") | {"path": "/root/join.yaml"}
    assert completed(document(entry)) != entry


def test_written_as_json() -> None:
    """JSON is YAML, to kubeadm as well."""
    config = {"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration"}
    entry = {"path": PATH, "content": json.dumps(config)}
    after = yaml.safe_load(completed(document(entry))["content"])
    assert after["nodeRegistration"]["kubeletExtraArgs"][0]["value"] == INSTANCE.provider_id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"encoding": "gzip"}, "bytes of gzip are no text: write its encoding as gzip+base64"),
        ({"encoding": "gz"}, "bytes of gzip are no text"),
        ({"encoding": "base64"}, "it is not UTF-8 text"),
        ({"encoding": "base64", "content": "!"}, "it has neither an InitConfiguration nor"),
        ({"encoding": "base64", "content": "a"}, "it is not base64"),
        ({"content": base64.b64encode(b"hunter2").decode()}, "it is not gzip"),
        ({"content": zipped(b"x" * (LIMIT + 1))}, f"it unpacks to more than {LIMIT} bytes"),
        ({"content": zipped(b"hunter2")}, "it has neither an InitConfiguration nor"),
        ({"content": zipped(b"\xff")}, "it is not UTF-8 text"),
        ({"content": zipped(b"kind: JoinConfiguration: hunter2")}, "it is not valid YAML"),
        ({"content": zipped(b"kind: JoinConfiguration\n")}, "it has neither an InitConfiguration"),
        (
            {
                "encoding": "",
                "content": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n",
            },
            "it has neither an InitConfiguration nor a JoinConfiguration of kubeadm.k8s.io",
        ),
    ],
)
def test_what_kubeadm_reads_must_be_completed(change: dict[str, str], said: str) -> None:
    """Else the node would join without its provider id, and its Machine wait for ever."""
    entry = packed(join("v1beta4", LIST), "gzip+base64") | change
    words = refusal(entry)
    assert words.startswith(
        f"the file {PATH}, which kubeadm is told to read, cannot be completed with what the kubelet"
        f" must know: {said}"
    )


def test_cut_off_or_too_long() -> None:
    """Half of a packed file is not half of a configuration, and no more is twice a packed one."""
    data = gzip.compress(random.Random(1).randbytes(500), mtime=0)
    for part, said in (
        (data[:300], "its gzip data is cut off"),
        (data + data, "something follows its gzip data"),
    ):
        entry = packed("", "gz+b64") | {"content": base64.b64encode(part).decode()}
        assert refusal(entry).endswith(said)


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "/etc/x", "encoding": "base64", "content": "a"},
        {"path": "/etc/x", "encoding": "gzip", "content": "x"},
        {"path": "/etc/x", "encoding": "gz+b64", "content": zipped(b"x" * (LIMIT + 1))},
        {"path": "/etc/x", "encoding": "gz+b64", "content": zipped(b"\xff JoinConfiguration")},
        {"path": "/etc/x", "content": "kind: JoinConfiguration: no yaml"},
        {"path": PATH, "content": 5},
        {"path": PATH},
        "x",
    ],
)
def test_other_files_stay(entry: Any) -> None:  # noqa: ANN401 - any YAML
    """What is none of kubeadm's is nobody's business."""
    assert completed(document(entry)) == entry


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        (KUBEADM_JOIN, {PATH}),
        ("kubeadm init --config=/a --v 5 && echo --config /no", {"/a"}),
        ("sleep 1; /usr/bin/kubeadm  join --v 5 --config '/a'", {"/a"}),
        ('kubeadm join --config "/a" || kubeadm join --config /b', {"/a", "/b"}),
        (["kubeadm", "join", "--config", "/a"], {"/a"}),
        (["sh", "-c", "kubeadm join --config /a"], {"/a"}),
        ("kubeadm join 192.0.2.1:6443 --token x", set()),
        ("kubeadm join --my-config /a", set()),
        ("kubeadm version --config /a", set()),
        ("mykubeadmx join --config /a", set()),
        ("k3s agent --config /a", set()),
        (5, set()),
    ],
)
def test_what_kubeadm_is_told_to_read(line: object, paths: set[str]) -> None:
    """Its own argument decides."""
    assert config_paths({"runcmd": ["echo", line]}) == paths


@pytest.mark.parametrize("found", [{}, {"runcmd": None}, {"runcmd": "kubeadm join"}])
def test_no_commands(found: Document) -> None:
    """What is no list of commands calls nothing."""
    assert not calls_kubeadm(found)
    assert config_paths(found) == frozenset()


# Without kubeadm, or with a configuration that is made on the node.


@pytest.mark.parametrize(
    "found",
    [
        {"runcmd": ["curl -sfL https://get.example | sh -s - agent"]},
        {"runcmd": ["kubeadm join 192.0.2.1:6443 --token x"], "write_files": []},
        {"runcmd": ["make-config >/run/k.yaml", "kubeadm join --config /run/k.yaml"]},
        {"write_files": [{"path": "/etc/rancher/rke2/config.yaml", "content": "token: x\n"}]},
    ],
)
def test_no_configuration_is_no_error(found: Document) -> None:
    """Other bootstrap providers have their own way to say whose node it is: jinja's instance_id."""
    data = b"#cloud-config\n" + yaml.safe_dump(found).encode()
    assert render(data, "cloud-config", INSTANCE) == found


def test_the_provider_id_for_other_bootstrap_providers() -> None:
    """They get it by the variable that cloud-init has for it."""
    data = (
        b"## template: jinja\n#cloud-config\nwrite_files:\n- path: /etc/rancher/k3s/config.yaml\n"
        b"  content: 'kubelet-arg: [\"provider-id={{ ds.meta_data.instance_id }}\"]'\n"
    )
    content = render(data, "cloud-config", INSTANCE)["write_files"][0]["content"]
    assert content == f'kubelet-arg: ["provider-id={INSTANCE.provider_id}"]'


# Properties.


@always
@given(st.text(max_size=80), st.sampled_from([*BASE64, *GZIP_BASE64, "", "text/plain"]))
def test_any_text_comes_out_as_it_went_in(text: str, encoding: str) -> None:
    """Packing and unpacking are inverse."""
    form = packing(encoding)
    assert form.unpack(form.pack(text)) == text
    assert form.pack(text) == form.pack(text)


@always
@given(st.text(max_size=60), st.sampled_from([*BASE64, *GZIP_BASE64, *GZIP, "x"]))
def test_any_content_is_answered(content: str, encoding: str) -> None:
    """Whatever a file holds, there is text or a reason; what kubeadm does not read stays."""
    with suppress(Unreadable):
        packing(encoding).unpack(content)
    entry = {"path": "/etc/x", "encoding": encoding, "content": content}
    assert render(files(entry), "", Instance("w", "vco://x", {}))["write_files"] == [entry]
