"""Bootstrap data of Cluster API becomes the user data of one machine."""

import gzip
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from capvco.bootstrap.userdata import Document, Instance, UserDataError, render
from tests.support.properties import always

INSTANCE = Instance(
    hostname="worker-1",
    provider_id="vco://be-g8-4/default/worker-1-0a1b2c3d",
    node_labels={"cluster-api/accelerator": "nvidia-a100"},
)
PLAIN = Instance(hostname="worker-1", provider_id=INSTANCE.provider_id, node_labels={})
SECRET = "hunter2"  # the word that no message may show
KUBEADM_JOIN = (
    "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml "
    " && echo success > /run/cluster-api/bootstrap-success.complete"
)
HEADER = "## template: jinja\n#cloud-config\n"


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def cloud_config(
    kubeadm: str, *, header: str = HEADER, path: str = "/run/kubeadm/join.yaml"
) -> bytes:
    """Write bootstrap data as the kubeadm bootstrap provider does."""
    return (
        f"{header}\nwrite_files:\n"
        "-   path: /etc/kubernetes/pki/ca.crt\n    owner: root:root\n    permissions: '0640'\n"
        "    content: |\n      -----BEGIN CERTIFICATE-----\n      MIIC\n"
        "      -----END CERTIFICATE-----\n"
        f"-   path: {path}\n    owner: root:root\n    permissions: '0640'\n    content: |\n"
        f"{indented(kubeadm, 6)}"
        '-   path: /run/cluster-api/placeholder\n    content: "This is a placeholder"\n'
        f'runcmd:\n  - "{KUBEADM_JOIN}"\n'
        "ntp:\n  enabled: true\n  servers:\n    - pool.example\n"
    ).encode()


def join(version: str, registration: str) -> str:
    return (
        f"---\napiVersion: kubeadm.k8s.io/{version}\n"
        "discovery:\n  bootstrapToken:\n    apiServerEndpoint: 10.0.0.1:6443\n"
        "    token: abcdef.0123456789abcdef\n"
        f"kind: JoinConfiguration\n{registration}"
    )


MAPPING = (
    "nodeRegistration:\n  kubeletExtraArgs:\n    cloud-provider: external\n"
    "    node-labels: tier=gpu,zone=a\n  name: '{{ ds.meta_data.local_hostname }}'\n  taints: []\n"
)
LIST = (
    "nodeRegistration:\n  kubeletExtraArgs:\n  - name: cloud-provider\n    value: external\n"
    "  - name: feature-gates\n    value: A=true\n  - name: feature-gates\n    value: B=true\n"
    "  - name: node-labels\n    value: tier=gpu\n  - name: node-labels\n    value: zone=a\n"
    "  name: '{{ ds.meta_data.local_hostname }}'\n  taints: []\n"
)


def kubeadm_documents(document: Document, path: str = "/run/kubeadm/join.yaml") -> list[Any]:
    content = next(f["content"] for f in document["write_files"] if f["path"] == path)
    return list(yaml.safe_load_all(content))


def as_mapping(document: Document) -> dict[str, str]:
    (config,) = kubeadm_documents(document)
    return msgspec.convert(config["nodeRegistration"]["kubeletExtraArgs"], dict[str, str])


def as_list(document: Document) -> list[tuple[str, str]]:
    (config,) = kubeadm_documents(document)
    found = config["nodeRegistration"]["kubeletExtraArgs"]
    assert all(argument.keys() == {"name", "value"} for argument in found)
    return [(argument["name"], argument["value"]) for argument in found]


def labels(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split(","))


def refusal(data: bytes, format_: str = "cloud-config") -> str:
    with pytest.raises(UserDataError) as caught:
        render(data, format_, INSTANCE)
    assert SECRET not in str(caught.value)
    return str(caught.value)


# What the kubelet is told.


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_arguments_as_a_mapping(version: str) -> None:
    """Up to v1beta3 arguments are a mapping; the user's own stay."""
    found = as_mapping(render(cloud_config(join(version, MAPPING)), "cloud-config", INSTANCE))
    assert labels(found.pop("node-labels")) == {
        "tier": "gpu",
        "zone": "a",
        "cluster-api/accelerator": "nvidia-a100",
    }
    assert found == {"cloud-provider": "external", "provider-id": INSTANCE.provider_id}


@pytest.mark.parametrize("version", ["v1beta4", "v1beta5", "v1beta10", "v1"])
def test_arguments_as_a_list(version: str) -> None:
    """Since v1beta4 they are a list, in which a name may come twice: nothing is lost."""
    pairs = as_list(render(cloud_config(join(version, LIST)), "cloud-config", INSTANCE))
    written = [value for name, value in pairs if name == "node-labels"]
    assert [labels(value) for value in written] == [
        {"tier": "gpu", "zone": "a", "cluster-api/accelerator": "nvidia-a100"}
    ]
    assert [pair for pair in pairs if pair[0] != "node-labels"] == [
        ("cloud-provider", "external"),
        ("feature-gates", "A=true"),
        ("feature-gates", "B=true"),
        ("provider-id", INSTANCE.provider_id),
    ]


@pytest.mark.parametrize("registration", ["", "nodeRegistration:\n", "nodeRegistration: {}\n"])
@pytest.mark.parametrize("version", ["v1beta3", "v1beta4"])
def test_arguments_where_there_were_none(registration: str, version: str) -> None:
    """A configuration that says nothing of the node gets what it needs, and no empty labels."""
    document = render(cloud_config(join(version, registration)), "", PLAIN)
    found = as_list(document) if version == "v1beta4" else list(as_mapping(document).items())
    assert found == [("provider-id", PLAIN.provider_id)]


def test_the_users_label_wins_and_the_provider_id_is_ours() -> None:
    """A label of the user's stays as it is; another provider id would never be found again."""
    registration = (
        "nodeRegistration:\n  kubeletExtraArgs:\n    provider-id: other://x\n"
        "    node-labels: cluster-api/accelerator=mine,bare\n"
    )
    found = as_mapping(render(cloud_config(join("v1beta3", registration)), "", INSTANCE))
    assert labels(found["node-labels"]) == {"cluster-api/accelerator": "mine", "bare": ""}
    assert found["provider-id"] == INSTANCE.provider_id


def test_the_rest_of_the_registration_stays() -> None:
    """Name, taints and everything beside them are as they were."""
    document = render(cloud_config(join("v1beta4", LIST)), "cloud-config", INSTANCE)
    (config,) = kubeadm_documents(document)
    assert config["nodeRegistration"]["name"] == "worker-1"
    assert config["nodeRegistration"]["taints"] == []
    assert config["discovery"]["bootstrapToken"]["token"] == "abcdef.0123456789abcdef"
    assert config["apiVersion"] == "kubeadm.k8s.io/v1beta4"


def test_several_documents_in_one_file() -> None:
    """Of a cluster's first machine only the InitConfiguration is completed; empty ones vanish."""
    text = (
        "---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n"
        "clusterName: prod\nkubernetesVersion: v1.35.8\napiServer:\n  extraArgs:\n    v: '2'\n"
        "---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n"
        "nodeRegistration:\n  kubeletExtraArgs:\n    v: '4'\n"
        "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "maxPods: 50\n---\n"
    )
    before = [document for document in yaml.safe_load_all(text) if document]
    after = kubeadm_documents(render(cloud_config(text), "cloud-config", PLAIN))
    assert [document["kind"] for document in after] == [d["kind"] for d in before]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1]["nodeRegistration"]["kubeletExtraArgs"] == {
        "v": "4",
        "provider-id": PLAIN.provider_id,
    }


def test_values_that_are_not_text_become_text() -> None:
    """Arguments are text to kubeadm, whatever was written without quotes."""
    registration = "nodeRegistration:\n  kubeletExtraArgs:\n    a: true\n    b: 5\n    c:\n"
    found = as_mapping(render(cloud_config(join("v1beta3", registration)), "", PLAIN))
    assert {name: found[name] for name in "abc"} == {"a": "true", "b": "5", "c": ""}


@pytest.mark.parametrize(
    "text", ["1e3", "1.5e3", "-1E5", "0o17", "y", "N", "true", "off", "0777", "1_000", "12:30", "~"]
)
def test_text_stays_text_for_another_yaml_library(text: str) -> None:
    """What Go's library would take for a number or a truth value is written in quotes."""
    registration = f"nodeRegistration:\n  kubeletExtraArgs:\n    x: '{text}'\n"
    document = render(cloud_config(join("v1beta3", registration)), "", PLAIN)
    content = document["write_files"][1]["content"]
    assert re.search(rf"^ +x: (['\"]){re.escape(text)}\1$", content, re.MULTILINE)


@pytest.mark.parametrize(
    ("registration", "said"),
    [
        ("nodeRegistration: [hunter2]\n", "nodeRegistration of the JoinConfiguration"),
        ("nodeRegistration:\n  kubeletExtraArgs: hunter2\n", "neither a mapping nor a list"),
        ("nodeRegistration:\n  kubeletExtraArgs: [hunter2]\n", "has no name"),
        ("nodeRegistration:\n  kubeletExtraArgs: [{value: hunter2}]\n", "has no name"),
    ],
)
def test_malformed_registration(registration: str, said: str) -> None:
    """A configuration that kubeadm would refuse on the node is refused before anything is paid."""
    assert said in refusal(cloud_config(join("v1beta4", registration)))


# What stays as it is.


def test_commands_and_other_files_stay() -> None:
    """The kubeadm line and all else are handed on unchanged."""
    data = cloud_config(join("v1beta4", LIST))
    before, after = yaml.safe_load(data), render(data, "cloud-config", INSTANCE)
    assert after["runcmd"] == [KUBEADM_JOIN]
    assert {**after, "write_files": None} == {**before, "write_files": None}
    changed = [
        new["path"]
        for old, new in zip(before["write_files"], after["write_files"], strict=True)
        if old != new
    ]
    assert changed == ["/run/kubeadm/join.yaml"]
    entry = after["write_files"][1]
    assert (entry["owner"], entry["permissions"]) == ("root:root", "0640")


def files(*entries: Mapping[str, object]) -> bytes:
    return b"#cloud-config\n" + yaml.safe_dump({"write_files": list(entries)}).encode()


@pytest.mark.parametrize(
    "content",
    [
        "kind: JoinConfiguration\n",  # no version: not kubeadm's
        "apiVersion: example.org/v1\nkind: JoinConfiguration\n",
        "echo 'kind: InitConfiguration' # {{ not yaml",
        "kind: InitConfiguration\napiVersion: [kubeadm.k8s.io/v1beta4]\n",
        "kind: InitConfiguration\nwhen: 2024-99-99\n",
        "",
    ],
)
def test_files_that_only_look_like_it_stay(content: str) -> None:
    """Only kubeadm's own kinds are completed."""
    entry = {"path": "/root/notes", "content": content}
    assert render(files(entry), "cloud-config", INSTANCE)["write_files"] == [entry]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"write_files": None},
        {"write_files": {"path": "/x"}},
        {"write_files": ["x", None, {"path": "/x"}, {"path": "/x", "content": 5}]},
        {"runcmd": ["true"]},
    ],
)
def test_odd_documents_stay(document: Document) -> None:
    """What is not a file with text is nobody's configuration."""
    data = b"#cloud-config\n" + yaml.safe_dump(document).encode()
    assert render(data, "cloud-config", INSTANCE) == document


# Jinja.


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{{ ds.meta_data.local_hostname }}", "worker-1"),
        ("{{ds.meta_data.hostname}}", "worker-1"),
        ("{{ v1.local_hostname }}", "worker-1"),
        ("{{ local_hostname }}", "worker-1"),
        ("{{ ds.meta_data.instance_id }}", INSTANCE.provider_id),
        ("{{ v1.instance_id }}", INSTANCE.provider_id),
        ("{{ instance_id }}", INSTANCE.provider_id),
        ("a {{- local_hostname -}} b", "aworker-1b"),
        ("{{ local_hostname }}-{{ local_hostname }}", "worker-1-worker-1"),
        ("{% raw %}{{ .Names }} ${#a[@]}{% endraw %}", "{{ .Names }} ${#a[@]}"),
        ("{%- raw -%}{{ local_hostname }}{%- endraw -%}", "{{ local_hostname }}"),
    ],
)
def test_known_expressions(expression: str, value: str) -> None:
    """The variables that any datasource has are filled in; raw blocks are taken as they are."""
    data = f"{HEADER}message: '{expression}'\n".encode()
    assert render(data, "cloud-config", INSTANCE) == {"message": value}


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("{{ ds.meta_data.region }}", ' "ds.meta_data.region"'),
        ("{{ local_hostname | upper }}", ""),
        ("{{ 'hunter2' }}", ""),
        ("{{ hunter2() }}", ""),
        ("{{ }}", ""),
        ("{% if hunter2 %}", ""),
        ("{# hunter2 #}", ""),
        ("{{ token:\n  hunter2 }}", ""),
    ],
)
def test_other_expressions_are_refused(expression: str, name: str) -> None:
    """Anything else would reach the node as it is: the message says where and what is possible."""
    data = f"{HEADER}a: b\nmessage: '{expression}'\n".encode()
    said = refusal(data)
    assert said.startswith(f"the bootstrap data uses a jinja expression{name} at line 4 that the")
    assert said.endswith(
        "possible are: ds.meta_data.hostname, ds.meta_data.instance_id,"
        " ds.meta_data.local_hostname, instance_id, local_hostname, v1.instance_id,"
        " v1.local_hostname"
    )


@pytest.mark.parametrize(
    "header", ["## template: jinja\n", "##template:JINJA\r\n", "\n## Template: Jinja \n"]
)
def test_headers(header: str) -> None:
    """The header is read as cloud-init reads it, and is gone afterwards."""
    data = f"{header}#cloud-config\na: '{{{{ v1.local_hostname }}}}'\n".encode()
    assert render(data, "cloud-config", INSTANCE) == {"a": "worker-1"}


def test_braces_without_a_header_are_text() -> None:
    """Without the header nothing is a template."""
    text = "docker ps --format '{{ .Names }}' {% x %} ${#a[@]}"
    entry = {"path": "/root/x.sh", "content": text}
    assert render(files(entry), "cloud-config", INSTANCE)["write_files"] == [entry]


# What cannot be used.


def test_ignition_is_refused() -> None:
    """The other format of the bootstrap provider; the message says where to set it."""
    said = refusal(b'{"ignition": {"version": "3.0.0"}}', "ignition")
    assert said == (
        'the bootstrap data has the format "ignition"; only cloud-config is supported: set'
        " spec.format of the bootstrap configuration to cloud-config"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with #cloud-config"),
        (b"#!/bin/sh\necho hunter2\n", "does not begin with #cloud-config"),
        (b"## template: jinja\n#!/bin/sh\nhunter2\n", "does not begin with #cloud-config"),
        (b"Content-Type: multipart/mixed\n\nhunter2", "multi-part"),
        (b'{"ignition": {"hunter2": "3.0.0"}}', "does not begin with #cloud-config"),
        (gzip.compress(b"#cloud-config\n", mtime=0), "is not UTF-8 text"),
        (b"#cloud-config\n\xff hunter2", "is not UTF-8 text"),
        (b"#cloud-config\n", "is not a cloud-config mapping"),
        (b"#cloud-config\n- hunter2\n", "is not a cloud-config mapping"),
        (b"#cloud-config\nhunter2\n", "is not a cloud-config mapping"),
        (b"#cloud-config-archive\n- hunter2\n", "is not a cloud-config mapping"),
        (b"#cloud-config\na: b: hunter2\n", "is not valid YAML at line 2: mapping values"),
        (b"#cloud-config\na: 'hunter2\n", "is not valid YAML at line"),
        (b"#cloud-config\na: [hunter2\n", "is not valid YAML at line"),
        (b"#cloud-config\na: !hunter2 b\n", "at line 2: could not determine a constructor"),
        (b"#cloud-config\na: !'h'hunter2 b\n", "is not valid YAML at line 2: "),
        (b"#cloud-config\na: *hunter2\n", "at line 2: found undefined alias"),
        (b"#cloud-config\na: !!int hunter2\n", "is not valid YAML: a value does not fit"),
        (b"#cloud-config\na: !!float hunter2\n", "is not valid YAML: a value does not fit"),
        (b"#cloud-config\na: !!bool hunter2\n", "is not valid YAML: a value does not fit"),
        (b"#cloud-config\na: !!timestamp hunter2\n", "is not valid YAML: a value does not fit"),
        (b"#cloud-config\na: 2024-99-99 # hunter2\n", "is not valid YAML: a value does not fit"),
        (b"#cloud-config\na: \x01hunter2\n", "is not valid YAML"),
        (b"#cloud-config\na: b\n---\nhunter2: d\n", "at line 3: but found another document"),
        (b"#cloud-config\n? [hunter2]\n: b\n", "found unhashable key"),
        (b"#cloud-config\na: !!binary aHVudGVyMg==\n", "tagged !!binary"),
        (b"#cloud-config\na: [{b: !!binary aHVudGVyMg==}]\n", "tagged !!binary"),
        (b"#cloud-config\ntrue: hunter2\n", "what JSON cannot carry"),
        (b"#cloud-config\na: &a [hunter2, *a]\n", "what JSON cannot carry"),
        (b"#cloud-config\na: " + b"[" * 20000 + b"hunter2", "is not valid YAML"),
    ],
)
def test_unusable_data(data: bytes, said: str) -> None:
    """Each message says what is wrong and where, and never shows what the data holds."""
    assert said in refusal(data)


LAUGHS = "a0: &a0 [hunter2, hunter2]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
LONG = f"a: &a {SECRET * 99999}\nb: [{', '.join(['*a'] * 9999)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, LONG])
def test_a_few_lines_that_mean_terabytes(text: str) -> None:
    """One user's Secret must not take the manager's memory, which serves all."""
    assert "too large once its YAML aliases are written out" in refusal(
        b"#cloud-config\n" + text.encode()
    )


def test_lines_are_those_of_the_secret() -> None:
    """With the jinja header too, line numbers count from its first line."""
    assert "at line 4: " in refusal(f"{HEADER}a: b\nc: d: {SECRET}\n".encode())


def test_the_input_is_not_needed_twice() -> None:
    """The same data and machine give the same document."""
    data = cloud_config(join("v1beta4", LIST))
    assert render(data, "cloud-config", INSTANCE) == render(data, "cloud-config", INSTANCE)


# Properties.

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXT)
TREES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXT, inner)), max_leaves=8
)


@always
@given(st.dictionaries(TEXT, TREES, max_size=4))
def test_any_document_is_handed_on(document: dict[str, object]) -> None:
    """A document without kubeadm's kinds comes out as it went in, and can be sent as JSON."""
    data = b"#cloud-config\n" + yaml.safe_dump(document, allow_unicode=True).encode()
    after = render(data, "cloud-config", INSTANCE)
    assert after == document
    assert msgspec.json.decode(msgspec.json.encode(after)) == document


@always
@given(st.dictionaries(TEXT, TREES, max_size=4))
def test_any_kubeadm_document_keeps_its_fields(fields: dict[str, object]) -> None:
    """Completing a configuration changes nothing but the kubelet's arguments."""
    config = {**fields, "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration"}
    config.pop("nodeRegistration", None)
    entry = {"path": "/run/kubeadm/join.yaml", "content": yaml.safe_dump(config)}
    (after,) = kubeadm_documents(render(files(entry), "cloud-config", PLAIN))
    registration = after.pop("nodeRegistration")
    assert after == config
    assert registration == {
        "kubeletExtraArgs": [{"name": "provider-id", "value": PLAIN.provider_id}]
    }


@always
@given(st.binary(max_size=40), st.sampled_from([b"", b"#cloud-config\n", HEADER.encode()]))
def test_any_bytes_are_answered(data: bytes, header: bytes) -> None:
    """Whatever is in the secret, the answer is a document or a refusal."""
    try:
        document = render(header + data, "cloud-config", INSTANCE)
    except UserDataError:
        return
    msgspec.json.encode(document)
