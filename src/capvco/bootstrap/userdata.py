"""Bootstrap data of Cluster API and CAPVCO's own parts, as one cloud-config document.

The platform takes user data as an object, not as text, so the document is parsed, completed and
handed on as data. The bootstrap provider writes it as a jinja template for cloud-init; since the
platform renders nothing, the few instance variables that it may use are filled in here, ``raw``
blocks are taken as they are, and any other expression is an error instead of a literal ``{{`` on
the node.

No message ever shows the text itself: it holds tokens and private keys.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from capvco.bootstrap.document import Document, UserDataError, parse
from capvco.bootstrap.gpu_step import Driver, with_gpu_step
from capvco.bootstrap.kubeadm import Registration, with_kubelet_arguments
from capvco.bootstrap.kubernetes_step import with_kubernetes_step
from capvco.bootstrap.size import fitted

__all__ = ["Document", "Driver", "Instance", "UserDataError", "fitted", "render"]

_JINJA_HEADER = re.compile(r"\A\s*##\s*template:\s*jinja\s*\n", re.IGNORECASE)
_EXPRESSION = re.compile(
    r"\{%-?\s*raw\s*-?%\}(?P<raw>.*?)\{%-?\s*endraw\s*-?%\}"
    r"|(?:\s*\{\{-|\{\{)\s*(?P<name>.*?)\s*(?:-\}\}\s*|\}\})"
    r"|\{%.*?%\}|\{\#.*?\#\}",
    re.DOTALL,
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][\w.]*")


class Instance(Struct, frozen=True):
    """What the document says of the machine that it is for."""

    hostname: str
    provider_id: str
    node_labels: Mapping[str, str]
    driver: Driver | None = None
    """The GPU driver to install at first boot; None where nothing of that kind is."""
    kubernetes: str = ""
    """The version of Kubernetes to install at first boot where the image has none; empty: never."""


def render(data: bytes, format_: str, instance: Instance) -> Document:
    """Return the cloud-config document for a machine. Raises UserDataError."""
    if format_ not in ("", "cloud-config"):
        raise UserDataError(
            f'the bootstrap data has the format "{format_}"; only cloud-config is supported: set'
            " spec.format of the bootstrap configuration to cloud-config"
        )
    document = parse(_fill(_decode(data), instance))
    node = Registration(instance.provider_id, instance.node_labels)
    document = with_kubelet_arguments(document, node)
    if instance.kubernetes:
        document = with_kubernetes_step(document, instance.kubernetes)
    return with_gpu_step(document, instance.driver) if instance.driver else document


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
