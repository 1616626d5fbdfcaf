"""kubeadm's configuration in a cloud-config document: what the kubelet is told of its node."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import yaml
from msgspec import Struct

from capvco.bootstrap.commands import config_paths
from capvco.bootstrap.content import Unreadable, packing
from capvco.bootstrap.document import LOADER, YAML_ERRORS, Document, UserDataError

_KUBEADM_KINDS = ("InitConfiguration", "JoinConfiguration")
_MAPPING_ARGS = ("v1beta1", "v1beta2", "v1beta3")
"""Versions of kubeadm's API that write arguments as a mapping; later ones as a list."""
_NONE = "it has neither an InitConfiguration nor a JoinConfiguration of kubeadm.k8s.io"
_PROVIDER_ID = "provider-id"
_NODE_LABELS = "node-labels"

# Typed loosely, since its base is known at run time only.
_DUMPER: Any = type("KubeadmDumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
# Plain text to this library, a number or a truth value to kubeadm's: to be quoted.
_DUMPER.add_implicit_resolver(
    "!ambiguous",
    re.compile(r"^(?:[-+]?[\d_]*\.?[\d_]*[eE][-+]?[\d_]+|[-+]?0[oO][0-7_]+|[yYnN])$"),
    list("-+.0123456789yYnN"),
)


class Registration(Struct, frozen=True):
    """What a kubelet says of its node when it registers it."""

    provider_id: str
    labels: Mapping[str, str]


def with_kubelet_arguments(document: Document, node: Registration) -> Document:
    """Tell the kubelet its provider id and labels, through kubeadm's own configuration.

    A document without one stays as it is: its author has another way to a node. Raises
    UserDataError for a file that kubeadm is told to read and that cannot be completed.
    """
    files = document.get("write_files")
    if not isinstance(files, list):
        return document
    read = config_paths(document)
    changed = [_completed(entry, node, read) for entry in files]
    return {**document, "write_files": changed}


def _completed(entry: object, node: Registration, read: Collection[str]) -> object:
    """Complete a file if it is kubeadm's, which it must be if kubeadm is told to read it."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        return entry
    content, form = entry["content"], packing(entry.get("encoding"))
    try:
        documents = _documents(form.unpack(content))
    except Unreadable as problem:
        if entry.get("path") in read:
            raise UserDataError(
                f"the file {entry['path']}, which kubeadm is told to read, cannot be completed with"
                f" what the kubelet must know: {problem}"
            ) from None
        return entry
    completed = [_register(document, node) for document in documents]
    text = yaml.dump_all(completed, Dumper=_DUMPER, sort_keys=False, explicit_start=True)
    return {**entry, "content": form.pack(text)}


def _documents(text: str) -> list[Any]:
    """Return the documents of kubeadm's configuration. Raises Unreadable if it is none."""
    if not any(kind in text for kind in _KUBEADM_KINDS):
        raise Unreadable(_NONE)
    try:
        documents = list(yaml.load_all(text, Loader=LOADER))
    except YAML_ERRORS:
        raise Unreadable("it is not valid YAML") from None
    if not any(_is_kubeadm(document) for document in documents):
        raise Unreadable(_NONE)
    # An empty document is skipped where it is read as one, but not once it is written as null.
    return [document for document in documents if document is not None]


def _is_kubeadm(document: object) -> bool:
    return (
        isinstance(document, dict)
        and document.get("kind") in _KUBEADM_KINDS
        and str(document.get("apiVersion", "")).startswith("kubeadm.k8s.io/")
    )


def _register(document: Any, node: Registration) -> Any:  # noqa: ANN401 - any YAML document
    if not _is_kubeadm(document):
        return document
    registration = document.get("nodeRegistration") or {}
    if not isinstance(registration, dict):
        raise UserDataError(f"nodeRegistration of the {document['kind']} is not a mapping")
    wanted = _merge(_arguments(registration.get("kubeletExtraArgs")), node)
    as_mapping = document["apiVersion"].rpartition("/")[2] in _MAPPING_ARGS
    arguments = (
        dict(wanted) if as_mapping else [{"name": name, "value": value} for name, value in wanted]
    )
    return {**document, "nodeRegistration": {**registration, "kubeletExtraArgs": arguments}}


Arguments = list[tuple[str, str]]


def _arguments(present: object) -> Arguments:
    if isinstance(present, dict):
        return [(str(name), _text(value)) for name, value in present.items()]
    if not isinstance(present, list | None):
        raise UserDataError("kubeletExtraArgs is neither a mapping nor a list")
    found = []
    for argument in present or ():
        if not isinstance(argument, dict) or "name" not in argument:
            raise UserDataError("an entry of the list kubeletExtraArgs has no name")
        found.append((str(argument["name"]), _text(argument.get("value"))))
    return found


def _text(value: object) -> str:
    """Write a scalar as kubeadm reads it: its own YAML library takes true for "true"."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merge(present: Arguments, node: Registration) -> Arguments:
    """Keep the user's own arguments, repeated ones too, and add labels to theirs."""
    ours = (_PROVIDER_ID, _NODE_LABELS)
    written = ",".join(value for name, value in present if name == _NODE_LABELS)
    labels = dict(part.partition("=")[::2] for part in written.split(",") if part)
    labels = {**node.labels, **labels}
    merged = [argument for argument in present if argument[0] not in ours]
    merged.append((_PROVIDER_ID, node.provider_id))
    if labels:
        merged.append((_NODE_LABELS, ",".join(f"{name}={labels[name]}" for name in labels)))
    return merged
