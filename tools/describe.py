"""Write the simulator's API description: the shapes, and only the shapes, of what it implements.

Usage: python tools/describe.py VENDOR_SWAGGER.json [TARGET]

The vendor's Swagger 2.0 file is read, the operations listed in tools/operations.txt are taken from
it, and everything written for people (titles, descriptions, examples, tags) is left behind. What
stays decides what a request and an answer may look like: places, names, types, enums, defaults of
parameters and request bodies, required and additional properties, status codes.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # a JSON document is what it is: this tool walks it and never interprets

SCHEMA_KEYS = [
    "type",
    "format",
    "enum",
    "required",
    "items",
    "allOf",
    "$ref",
    "properties",
    "additionalProperties",
    "minimum",
    "maximum",
]
PARAMETER_KEYS = ["name", "in", "collectionFormat", "default", "schema", *SCHEMA_KEYS]
ABBREVIATIONS = (
    ("{VM}", "{CS}/vms/{vm_id}"),
    ("{CS}", "{C}/cloudspaces/{cloudspace_id}"),
    ("{L}", "{C}/locations/{location}"),
    ("{C}", "/customers/{customer_id}"),
)
OPERATIONS = Path(__file__).with_name("operations.txt")
TARGET = Path(__file__).parent.parent / "src" / "vcosim" / "description.json"


def operations(text: str) -> list[tuple[str, str]]:
    """Return (method, path template) for each line such as ``GET {VM}/notes``."""
    lines = (line.split() for line in text.splitlines() if line)
    return [(method, _expanded(path)) for method, path in lines]


def _expanded(path: str) -> str:
    for short, long in ABBREVIATIONS:
        path = path.replace(short, long)
    return path


def describe(vendor: dict[str, Any], wanted: list[tuple[str, str]]) -> dict[str, Any]:
    """Return a Swagger 2.0 document with only the wanted operations and only their shapes."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path in wanted:
        source = vendor["paths"][path]
        entry = paths.setdefault(path, {})
        if "parameters" in source:
            entry["parameters"] = [_parameter(one) for one in source["parameters"]]
        entry[method.lower()] = _operation(source[method.lower()])
    asked = set(_bodies(paths))
    return {
        "swagger": "2.0",
        "info": {"title": "VCO", "version": vendor["info"]["version"]},
        "basePath": vendor["basePath"],
        "consumes": vendor["consumes"],
        "produces": vendor["produces"],
        "securityDefinitions": vendor["securityDefinitions"],
        "security": vendor["security"],
        "paths": paths,
        "definitions": {
            name: _schema(vendor["definitions"][name], defaults=name in _closure(asked, vendor))
            for name in sorted(_closure(set(_refs(paths)), vendor))
        },
    }


def _operation(source: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        key: source[key] for key in ("operationId", "consumes", "produces") if key in source
    }
    if "parameters" in source:
        kept["parameters"] = [_parameter(one) for one in source["parameters"]]
    kept["responses"] = {
        status: {"description": ""}
        | ({"schema": _schema(reply["schema"], defaults=False)} if "schema" in reply else {})
        for status, reply in sorted(source["responses"].items())
    }
    return kept


def _parameter(source: dict[str, Any]) -> dict[str, Any]:
    return {key: source[key] for key in PARAMETER_KEYS if key in source}


def _schema(source: dict[str, Any], *, defaults: bool) -> dict[str, Any]:
    """Return the shape of a schema; the defaults of answers are prose in the vendor's file."""
    kept = {key: source[key] for key in SCHEMA_KEYS if key in source}
    if defaults and "default" in source:
        kept["default"] = source["default"]
    if "properties" in kept:
        kept["properties"] = {
            name: _schema(one, defaults=defaults) for name, one in kept["properties"].items()
        }
    if "items" in kept:
        kept["items"] = _schema(kept["items"], defaults=defaults)
    if "allOf" in kept:
        kept["allOf"] = [_schema(one, defaults=defaults) for one in kept["allOf"]]
    return kept


def _bodies(paths: dict[str, Any]) -> Iterator[str]:
    for entry in paths.values():
        for operation in entry.values():
            if isinstance(operation, dict):
                yield from _refs(operation.get("parameters", []))


def _refs(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and value.startswith("#/definitions/"):
                yield value.removeprefix("#/definitions/")
            else:
                yield from _refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from _refs(value)


def _closure(names: set[str], vendor: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    while names:
        found |= names
        names = {ref for name in names for ref in _refs(vendor["definitions"][name])} - found
    return found


def main(arguments: list[str]) -> int:
    """Write the description; return the exit status."""
    if not 1 <= len(arguments) <= 2:  # noqa: PLR2004 - the usage line above names both
        print(__doc__)
        return 2
    vendor = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    target = Path(arguments[1]) if arguments[1:] else TARGET
    document = describe(vendor, operations(OPERATIONS.read_text(encoding="utf-8")))
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{target}: {len(document['paths'])} paths, {len(document['definitions'])} definitions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
