"""Bootstrap data of Cluster API and CAPVCO's own parts, as one cloud-config document.

The platform takes user data as an object, not as text, so the document is parsed, completed and
handed on as data. The bootstrap provider writes it as a jinja template for cloud-init; since the
platform renders nothing, the few instance variables that it may use are filled in here, and any
other is an error instead of a literal ``{{`` on the node.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from msgspec import Struct

# A YAML document is a tree of scalars, lists and mappings, whatever the user wrote.
Document = dict[str, Any]

_JINJA_HEADER = re.compile(r"\A\s*##\s*template:\s*jinja\s*\n", re.IGNORECASE)
_VARIABLE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_KUBEADM_KINDS = ("InitConfiguration", "JoinConfiguration")
_LIST_ARGS_SINCE = "v1beta4"


class UserDataError(Exception):
    """The bootstrap data cannot be used; the message says why and what to do."""


class Instance(Struct, frozen=True):
    """What the document says of the machine that it is for."""

    hostname: str
    provider_id: str
    node_labels: Mapping[str, str]


def render(data: bytes, format_: str, instance: Instance) -> Document:
    """Return the cloud-config document for a machine. Raises UserDataError."""
    if format_ not in ("", "cloud-config"):
        raise UserDataError(
            f'the bootstrap data has the format "{format_}"; only cloud-config is supported: set'
            " spec.format of the bootstrap configuration to cloud-config"
        )
    document = _parse(_fill(_decode(data), instance))
    return _with_kubelet_arguments(document, instance)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserDataError(f"the bootstrap data is not UTF-8 text ({error.reason})") from None


def _fill(text: str, instance: Instance) -> str:
    header = _JINJA_HEADER.match(text)
    if not header:
        return text
    known = {
        **dict.fromkeys(_HOSTNAMES, instance.hostname),
        **dict.fromkeys(_INSTANCE_IDS, instance.provider_id),
    }

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in known:
            raise UserDataError(
                f"the bootstrap data uses the jinja expression {found.group(0)[:80]!r}, which the"
                f" platform cannot fill in; possible are: {', '.join(sorted(known))}"
            )
        return known[name]

    return _VARIABLE.sub(value, text[header.end() :])


_HOSTNAMES = ("ds.meta_data.local_hostname", "ds.meta_data.hostname", "v1.local_hostname")
_INSTANCE_IDS = ("ds.meta_data.instance_id", "v1.instance_id")


def _parse(text: str) -> Document:
    if not text.lstrip().startswith("#cloud-config"):
        raise UserDataError(
            "the bootstrap data does not begin with #cloud-config; shell scripts and multi-part"
            " documents are not supported"
        )
    try:
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, the fast one if built
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        problem = getattr(error, "problem", None) or "syntax"
        # Never the text itself: it holds tokens and private keys.
        raise UserDataError(f"the bootstrap data is not valid YAML{line}: {problem}") from None
    if not isinstance(document, dict):
        raise UserDataError("the bootstrap data is not a cloud-config mapping")
    return document


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _with_kubelet_arguments(document: Document, instance: Instance) -> Document:
    """Tell the kubelet its provider id and labels, through kubeadm's own configuration."""
    files = document.get("write_files")
    if not isinstance(files, list):
        return document
    changed = [_kubeadm_file(entry, instance) for entry in files]
    return {**document, "write_files": changed}


def _kubeadm_file(entry: object, instance: Instance) -> object:
    if not isinstance(entry, dict) or entry.get("encoding") or "content" not in entry:
        return entry
    content = entry["content"]
    if not isinstance(content, str) or not any(
        f"kind: {kind}" in content for kind in _KUBEADM_KINDS
    ):
        return entry
    try:
        documents = list(yaml.load_all(content, Loader=_LOADER))
    except yaml.YAMLError:
        return entry
    if not any(_is_kubeadm(document) for document in documents):
        return entry
    completed = [_register(document, instance) for document in documents]
    text = yaml.dump_all(completed, Dumper=_DUMPER, sort_keys=False, explicit_start=True)
    return {**entry, "content": text}


def _is_kubeadm(document: object) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") in _KUBEADM_KINDS
        and str(document.get("apiVersion", "")).startswith("kubeadm.k8s.io/")
    )


def _register(document: Any, instance: Instance) -> Any:  # noqa: ANN401 - any YAML document
    if not _is_kubeadm(document):
        return document
    registration = dict(document.get("nodeRegistration") or {})
    as_list = str(document["apiVersion"]).rpartition("/")[2] >= _LIST_ARGS_SINCE
    present = _arguments(registration.get("kubeletExtraArgs"))
    wanted = _merge(present, instance)
    registration["kubeletExtraArgs"] = (
        [{"name": name, "value": value} for name, value in wanted.items()] if as_list else wanted
    )
    return {**document, "nodeRegistration": registration}


def _arguments(present: object) -> dict[str, str]:
    if isinstance(present, dict):
        return {str(name): str(value) for name, value in present.items()}
    if isinstance(present, list):
        return {str(arg["name"]): str(arg.get("value", "")) for arg in present}
    return {}


def _merge(present: Mapping[str, str], instance: Instance) -> dict[str, str]:
    """Keep the user's own arguments, and add labels to theirs."""
    labels = dict(
        part.partition("=")[::2] for part in present.get("node-labels", "").split(",") if part
    )
    for name, value in instance.node_labels.items():
        labels.setdefault(name, value)
    merged = {**present, "provider-id": instance.provider_id}
    if labels:
        merged["node-labels"] = ",".join(f"{name}={value}" for name, value in labels.items())
    return merged


Renderer = Callable[[bytes, str, Instance], Document]
