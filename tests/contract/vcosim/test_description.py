"""The shipped description says what the vendor's says, operation by operation."""

from typing import Any

import pytest

from tests.support import vendor
from vcosim.description import shipped

PROSE = ("description", "title", "example", "summary", "tags", "x-", "default")
SHIPPED = shipped().document
OPERATIONS = [
    (method, route)
    for route, entry in SHIPPED["paths"].items()
    for method in entry
    if method != "parameters"
]


def resolved(
    document: dict[str, Any],
    schema: Any,  # noqa: ANN401 - JSON
    *,
    defaults: bool,
    depth: int = 12,
) -> Any:  # noqa: ANN401 - JSON
    """Return a schema with its references replaced and its prose gone."""
    if isinstance(schema, list):
        return [resolved(document, one, defaults=defaults, depth=depth) for one in schema]
    if not isinstance(schema, dict) or depth == 0:
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        return resolved(document, document["definitions"][name], defaults=defaults, depth=depth - 1)
    shape: dict[str, Any] = {}
    for key, one in schema.items():
        if key == "properties":
            shape[key] = {
                name: resolved(document, each, defaults=defaults, depth=depth - 1)
                for name, each in one.items()
            }
        elif key == "required" and isinstance(one, list):
            shape[key] = sorted(one)
        elif not key.startswith(PROSE) or (key == "default" and defaults):
            shape[key] = resolved(document, one, defaults=defaults, depth=depth - 1)
    return shape


def parameters(document: dict[str, Any], route: str, method: str) -> dict[str, Any]:
    """Return an operation's parameters by place and name."""
    return {
        f"{one['in']} {one['name']}": resolved(document, one, defaults=True)
        for one in vendor.parameters(document, route, method)
        if one["in"] != "header"
    }


@pytest.mark.parametrize(("method", "route"), OPERATIONS)
def test_parameters_and_bodies_are_the_vendors(method: str, route: str) -> None:
    """Places, names, types, enums, defaults and required marks of everything one may send."""
    theirs = vendor.require_vendor()
    assert parameters(SHIPPED, route, method) == parameters(theirs, route, method)


@pytest.mark.parametrize(("method", "route"), OPERATIONS)
def test_answers_are_the_vendors(method: str, route: str) -> None:
    """Status codes and the shape of every answer."""
    theirs = vendor.require_vendor()["paths"][route][method]["responses"]
    ours = SHIPPED["paths"][route][method]["responses"]
    assert set(ours) == set(theirs)
    for status, answer in theirs.items():
        assert resolved(SHIPPED, ours[status].get("schema"), defaults=False) == resolved(
            vendor.require_vendor(), answer.get("schema"), defaults=False
        )


def test_the_frame_is_the_vendors() -> None:
    """Base path, media types and security are taken over."""
    theirs = vendor.require_vendor()
    for key in ("swagger", "basePath", "consumes", "produces", "security", "securityDefinitions"):
        assert SHIPPED[key] == theirs[key]


def test_the_shipped_description_carries_no_prose() -> None:
    """Only shapes are shipped: no text written for people."""

    def texts(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [f"{key}: {one}" for key, one in node.items() if key in ("summary", "example")]
            return own + [text for one in node.values() for text in texts(one)]
        return [text for one in node for text in texts(one)] if isinstance(node, list) else []

    assert texts(SHIPPED) == []
    assert all(
        answer["description"] == ""
        for entry in SHIPPED["paths"].values()
        for method, operation in entry.items()
        if method != "parameters"
        for answer in operation["responses"].values()
    )
