"""Bootstrap data of Cluster API and CAPVCO's own parts, as one cloud-config document.

The platform takes user data as an object, not as text, so the document is parsed, completed and
handed on as data. The bootstrap provider writes it as a jinja template for cloud-init; since the
platform renders nothing, the few instance variables that it may use are filled in here, ``raw``
blocks are taken as they are, and any other expression is an error instead of a literal ``{{`` on
the node.

No message ever shows the text itself: it holds tokens and private keys.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import yaml
from msgspec import Struct

# A YAML document is a tree of scalars, lists and mappings, whatever the user wrote.
Document = dict[str, Any]

_JINJA_HEADER = re.compile(r"\A\s*##\s*template:\s*jinja\s*\n", re.IGNORECASE)
_EXPRESSION = re.compile(
    r"\{%-?\s*raw\s*-?%\}(?P<raw>.*?)\{%-?\s*endraw\s*-?%\}"
    r"|(?:\s*\{\{-|\{\{)\s*(?P<name>.*?)\s*(?:-\}\}\s*|\}\})"
    r"|\{%.*?%\}|\{\#.*?\#\}",
    re.DOTALL,
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][\w.]*")
_QUOTED = re.compile(r"['\"](?=\S*\w\S*\w).*", re.DOTALL)
_KUBEADM_KINDS = ("InitConfiguration", "JoinConfiguration")
_MAPPING_ARGS = ("v1beta1", "v1beta2", "v1beta3")
"""Versions of kubeadm's API that write arguments as a mapping; later ones as a list."""
_PROVIDER_ID = "provider-id"
_NODE_LABELS = "node-labels"
# What YAML or Python raise for a value that does not fit its tag, or for endless nesting.
_YAML_ERRORS = (yaml.YAMLError, ValueError, KeyError, AttributeError, RecursionError)


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

    # Blank lines stand for the header: lines are numbered as in the secret.
    body = "\n" * text.count("\n", 0, header.end()) + text[header.end() :]

    def value(found: re.Match[str]) -> str:
        raw, name = found.group("raw", "name")
        if raw is not None:
            return raw
        if name in known:
            return known[name]
        line = body.count("\n", 0, body.index("{", found.start())) + 1
        shown = f' "{name}"' if name and _VARIABLE_NAME.fullmatch(name) else ""
        raise UserDataError(
            f"the bootstrap data uses a jinja expression{shown} at line {line} that the platform"
            f" cannot fill in; possible are: {', '.join(sorted(known))}"
        )

    return _EXPRESSION.sub(value, body)


_HOSTNAMES = (
    "ds.meta_data.local_hostname",
    "ds.meta_data.hostname",
    "v1.local_hostname",
    "local_hostname",
)
_INSTANCE_IDS = ("ds.meta_data.instance_id", "v1.instance_id", "instance_id")


def _parse(text: str) -> Document:
    if not text.lstrip().startswith("#cloud-config"):
        raise UserDataError(
            "the bootstrap data does not begin with #cloud-config; shell scripts and multi-part"
            " documents are not supported"
        )
    try:
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, the fast one if built
    except _YAML_ERRORS as error:
        raise UserDataError(f"the bootstrap data is not valid YAML{_explain(error)}") from None
    if not isinstance(document, dict):
        raise UserDataError("the bootstrap data is not a cloud-config mapping")
    _check_is_data(document)
    return document


def _explain(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = f" at line {mark.line + 1}" if mark else ""
    # What is quoted may be content.
    said = _QUOTED.sub("\u2026", problem) if problem else "a value does not fit its type"
    return f"{line}: {said}"


def _check_is_data(document: Document) -> None:
    """Raise for what the platform's JSON cannot carry: better now than once GPUs are paid for."""
    try:
        msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError):
        raise UserDataError(
            "the bootstrap data has what JSON cannot carry: a key that is no text, or a part that"
            " contains itself"
        ) from None
    if any(isinstance(value, bytes) for value in _values(document)):
        raise UserDataError(
            "the bootstrap data has a value tagged !!binary: write it as text, with encoding:"
            " base64 beside the content of a file"
        )


def _values(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _values(inner)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _values(inner)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Typed loosely, since its base is known at run time only.
_DUMPER: Any = type("KubeadmDumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
# Plain text to this library, a number or a truth value to kubeadm's: to be quoted.
_DUMPER.add_implicit_resolver(
    "!ambiguous",
    re.compile(r"^(?:[-+]?[\d_]*\.?[\d_]*[eE][-+]?[\d_]+|[-+]?0[oO][0-7_]+|[yYnN])$"),
    list("-+.0123456789yYnN"),
)


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
    except _YAML_ERRORS:
        return entry
    if not any(_is_kubeadm(document) for document in documents):
        return entry
    # An empty document is skipped where it is read as one, but not once it is written as null.
    completed = [_register(document, instance) for document in documents if document is not None]
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
    registration = document.get("nodeRegistration") or {}
    if not isinstance(registration, dict):
        raise UserDataError(f"nodeRegistration of the {document['kind']} is not a mapping")
    wanted = _merge(_arguments(registration.get("kubeletExtraArgs")), instance)
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


def _merge(present: Arguments, instance: Instance) -> Arguments:
    """Keep the user's own arguments, repeated ones too, and add labels to theirs."""
    ours = (_PROVIDER_ID, _NODE_LABELS)
    written = ",".join(value for name, value in present if name == _NODE_LABELS)
    labels = dict(part.partition("=")[::2] for part in written.split(",") if part)
    labels = {**instance.node_labels, **labels}
    merged = [argument for argument in present if argument[0] not in ours]
    merged.append((_PROVIDER_ID, instance.provider_id))
    if labels:
        merged.append((_NODE_LABELS, ",".join(f"{name}={labels[name]}" for name in labels)))
    return merged


Renderer = Callable[[bytes, str, Instance], Document]
