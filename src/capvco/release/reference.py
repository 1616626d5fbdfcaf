"""Writes the reference pages: ``python -m capvco.release.reference docs/reference``.

The pages say what the CRDs and roles say, because they are written from them.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, convert, field

from capvco.api.conditions import ConditionType, Reason
from capvco.api.crds import Definition, definitions
from capvco.api.fielddocs import member_docs
from capvco.api.policies import TEMPLATE_KINDS, TemplateKind
from capvco.api.schema import kind_schema
from capvco.api.v1beta1 import GROUP, VERSION
from capvco.release.rbac import CLUSTER_ACCESS, LEADER_ACCESS, NAMESPACE, Access

_TEMPLATED = "spec.template.spec"


class Validation(Struct, frozen=True):
    """A rule of the schema, of which the page gives the sentence."""

    message: str


class Node(Struct, frozen=True, rename="camel"):
    """What the pages use of a schema."""

    type: str
    description: str = ""
    default: str | int | bool | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    max_items: int | None = None
    multiple_of: int | None = None
    properties: dict[str, "Node"] = {}
    required: tuple[str, ...] = ()
    items: "Node | None" = None
    additional_properties: "Node | None" = None
    validations: tuple[Validation, ...] = field(default=(), name="x-kubernetes-validations")


class Row(Struct, frozen=True):
    """A field of an object, by its path."""

    path: str
    required: bool
    node: Node


def api_page() -> str:
    """Return the reference of the API."""
    head = (
        f"# API reference\n\n"
        f"API group `{GROUP}`, version `{VERSION}`. This page is generated from the types in"
        " `src/capvco/api` (`make reference`); `kubectl explain vcomachine.spec` shows the same.\n"
    )
    return "\n".join([head, *(_kind_section(definition) for definition in definitions())])


def rights_page() -> str:
    """Return the reference of what the manager may do."""
    head = (
        "# What the manager may do\n\n"
        "This page is generated from the table in `src/capvco/release/rbac.py`"
        " (`make reference`), from which the roles are made as well. There is no wildcard; nothing"
        " may be created but Events and the Lease, and nothing deleted.\n"
    )
    everywhere = ["## In all namespaces\n", *_access_table(CLUSTER_ACCESS), ""]
    here = [f"## In {NAMESPACE}\n", *_access_table(LEADER_ACCESS), ""]
    return "\n".join([head, *everywhere, *here])


def conditions_page() -> str:
    """Return the reference of conditions and reasons, each with its cure."""
    head = (
        "# Conditions and reasons\n\n"
        "What CAPVCO says of its objects, and what to do about it. This page is generated from"
        " `src/capvco/api/conditions.py` (`make reference`). `Ready` carries the reason and the"
        " message of what is waited for; `kubectl get vcomachine` and `clusterctl describe cluster`"
        " show them.\n"
    )
    lines = [
        head,
        "## Conditions\n",
        "| condition | what it says |",
        "|---|---|",
        *(f"| `{type_}` | {doc} |" for type_, doc in member_docs(ConditionType).items()),
        "",
        "## Reasons\n",
        "| reason | what it means | cure |",
        "|---|---|---|",
    ]
    for reason, doc in member_docs(Reason).items():
        meaning, _, cure = doc.partition("Cure: ")
        lines.append(f"| `{reason}` | {meaning.strip()} | {_sentence(cure)} |")
    return "\n".join([*lines, ""])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def pages() -> dict[str, str]:
    """Return file name → text of all pages."""
    return {"api.md": api_page(), "conditions.md": conditions_page(), "rights.md": rights_page()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, or 1 for a page that is out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m capvco.release.reference",
        description="Write the reference pages from the types and roles.",
    )
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/reference"))
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    return _check(options.folder) if options.check else _write(options.folder)


def _write(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{folder / name}\n")
    return 0


def _check(folder: Path) -> int:
    stale = [folder / name for name, text in pages().items() if _present(folder / name) != text]
    for path in stale:
        sys.stderr.write(f"{path} is not what the types and roles say: run make reference\n")
    return 1 if stale else 0


def _present(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _kind_section(definition: Definition) -> str:
    schema = convert(kind_schema(definition.type, definition.spec_rules), Node)
    rows = [row for row in _rows(schema, "") if not _elsewhere(definition, row.path)]
    lines = [
        f"## {definition.kind}\n",
        f"{schema.description} Short name `{definition.short_name}`.\n",
        "| field | type | what it is |",
        "|---|---|---|",
        *map(_table_row, rows),
        "",
    ]
    if rules := _rules(definition, schema):
        lines += ["Refused at admission:\n", *(f"- {rule}" for rule in rules), ""]
    return "\n".join(lines)


def _rows(node: Node, path: str) -> Iterator[Row]:
    for name, child in node.properties.items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        here = f"{path}.{name}" if path else name
        yield Row(here, name in node.required, child)
        yield from _rows(child.items or child, f"{here}[]" if child.items else here)


def _elsewhere(definition: Definition, path: str) -> bool:
    """Say whether a field is described with the kind that a template makes."""
    return definition.kind.endswith("Template") and path.startswith(f"{_TEMPLATED}.")


def _table_row(row: Row) -> str:
    name = f"`{row.path}`" + (" (required)" if row.required else "")
    return f"| {name} | {_type(row.node)} | {_cell(row.node.description)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


def _type(node: Node) -> str:
    parts = [_type_name(node), *_limits(node)]
    if node.default is not None:
        parts.append(f"default `{node.default}`")
    return ", ".join(parts)


def _type_name(node: Node) -> str:
    if node.enum:
        return "one of " + ", ".join(f"`{value}`" for value in node.enum)
    if node.items:
        return f"list of {node.items.type}s"
    if node.additional_properties:
        return f"map of {node.additional_properties.type}s"
    return node.type


def _limits(node: Node) -> Iterable[str]:
    if node.minimum is not None and node.maximum is not None:
        yield f"{node.minimum} to {node.maximum}"
    elif node.minimum is not None:
        yield f"at least {node.minimum}"
    if node.multiple_of:
        yield f"a multiple of {node.multiple_of}"
    if node.max_length:
        yield f"at most {node.max_length} characters"
    if node.max_items:
        yield f"at most {node.max_items}"


def _rules(definition: Definition, schema: Node) -> list[str]:
    template = next((kind for kind in TEMPLATE_KINDS if kind.kind == definition.kind), None)
    if template is None:
        return _messages(schema)
    shared = _messages(schema.properties["spec"].properties["template"].properties["spec"])
    own = [message for message in _messages(schema) if message not in shared]
    return [*own, _policy_sentence(template)]


def _policy_sentence(template: TemplateKind) -> str:
    return f"the spec of a {template.kind} cannot be changed: {template.advice}"


def _messages(node: Node) -> list[str]:
    own = [validation.message for validation in node.validations]
    children = [*node.properties.values(), *([node.items] if node.items else [])]
    return own + [message for child in children for message in _messages(child)]


def _access_table(access: Iterable[Access]) -> Iterator[str]:
    yield "| group | resources | verbs | why |"
    yield "|---|---|---|---|"
    for grant in access:
        group = grant.group or "core"
        yield (
            f"| {group} | {', '.join(grant.resources)} | {', '.join(grant.verbs)}"
            f" | {_cell(grant.why)} |"
        )


if __name__ == "__main__":
    sys.exit(main())
