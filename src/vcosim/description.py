"""The API description the simulator ships: which operations exist and what they take and give."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any, NamedTuple  # Any: JSON, or a type built from a schema

from vcosim.schema import Schemas

# The vendor's file declares no body for this one; clients send raw bytes.
LISTS = ("result", "data", "vms", "locations")
UPLOAD_PART = re.compile(r"/upload-part/\{part_id\}$")


class Parameter(NamedTuple):
    """One query or path parameter."""

    name: str
    type: str
    items: str
    required: bool
    enum: tuple[str, ...]
    default: object


class Operation(NamedTuple):
    """One method on one path: all that a request may carry and an answer may hold."""

    method: str
    route: str
    path: tuple[Parameter, ...]
    query: dict[str, Parameter]
    body: Any  # the type of the JSON body, None where there is none
    body_required: bool
    raw_body: bool
    lists: bool
    """Whether it answers a list of objects (which may lag, when that is ordered)."""
    answers: dict[int, Any]  # status → type of the body, None where the description has no schema

    @property
    def key(self) -> str:
        """Return ``METHOD route``, the name under which handlers are registered."""
        return f"{self.method} {self.route}"


class Description:
    """All operations, and the search for the one a request means."""

    def __init__(self, document: dict[str, Any]) -> None:  # Swagger 2.0, as loaded
        self.document = document
        self.base: str = document["basePath"]
        self.operations = {one.key: one for one in _operations(document)}
        self._routes = _by_length(self.operations.values())

    def routes(self, path: str) -> Iterator[tuple[Operation, dict[str, str]]]:
        """Yield the operations whose template fits a path below the base, fixed words first."""
        parts = path.strip("/").split("/")
        for template, operation in self._routes.get(len(parts), ()):
            values: dict[str, str] = {}
            for word, part in zip(template, parts, strict=True):
                if word.startswith("{"):
                    values[word[1:-1]] = part
                elif word != part:
                    break
            else:
                yield operation, values


def _by_length(operations: Iterable[Operation]) -> dict[int, list[tuple[list[str], Operation]]]:
    routes: dict[int, list[tuple[list[str], Operation]]] = {}
    for operation in operations:
        words = operation.route.strip("/").split("/")
        routes.setdefault(len(words), []).append((words, operation))
    for found in routes.values():
        found.sort(key=lambda one: [word.startswith("{") for word in one[0]])
    return routes


def _operations(document: dict[str, Any]) -> Iterator[Operation]:
    schemas = Schemas(document["definitions"])
    for route, entry in document["paths"].items():
        shared = entry.get("parameters", [])
        for method, operation in entry.items():
            if method != "parameters":
                yield _operation(schemas, method.upper(), route, operation, shared)


def _operation(
    schemas: Schemas, method: str, route: str, source: dict[str, Any], shared: list[dict[str, Any]]
) -> Operation:
    parameters = [*shared, *source.get("parameters", [])]
    body = next((one for one in parameters if one["in"] == "body"), None)
    return Operation(
        method=method,
        route=route,
        path=tuple(_parameter(one) for one in parameters if one["in"] == "path"),
        query={one["name"]: _parameter(one) for one in parameters if one["in"] == "query"},
        body=schemas.type_of(body["schema"], answer=False) if body else None,
        body_required=bool(body and body.get("required")),
        raw_body=bool(UPLOAD_PART.search(route)),
        lists=any(
            one.get("type") == "array" and name in LISTS
            for reply in source["responses"].values()
            for name, one in schemas.properties(reply.get("schema", {})).items()
        ),
        answers={
            int(status): schemas.type_of(reply["schema"], answer=True)
            if "schema" in reply
            else None
            for status, reply in source["responses"].items()
        },
    )


def _parameter(source: dict[str, Any]) -> Parameter:
    return Parameter(
        name=source["name"],
        type=source["type"],
        items=source.get("items", {}).get("type", ""),
        required=source.get("required", False),
        enum=tuple(source.get("enum", ())),
        default=source.get("default"),
    )


@cache
def shipped() -> Description:
    """Load the description that lies in this package; the same object every time."""
    text = resources.files("vcosim").joinpath("description.json").read_text(encoding="utf-8")
    return Description(json.loads(text))
