"""The vendor's API description, and checks of requests and answers against it.

Written on its own: it shares no code with the simulator, whose checks it is to judge.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any  # JSON documents

import jsonschema
import pytest

PROJECT = Path(__file__).parents[2]
BESIDE = PROJECT.parent / "shared" / "vco" / "whitesky-api.json"
BASE = "/api/1"


def vendor_file() -> Path | None:
    """Return where the vendor's file is, or None."""
    named = os.environ.get("VCO_API_DESCRIPTION")
    found = Path(named) if named else BESIDE
    return found if found.is_file() else None


def require_vendor() -> dict[str, Any]:
    """Return the vendor's description, or skip the test saying what is missing."""
    path = vendor_file()
    if path is None:
        pytest.skip(
            "NOT COMPARED: the vendor's API description is absent; "
            f"set VCO_API_DESCRIPTION or put it at {BESIDE}"
        )
    return _load(path)


def description() -> dict[str, Any]:
    """Return the vendor's description, or the shipped shapes where it is absent."""
    return _load(vendor_file() or PROJECT / "src" / "vcosim" / "description.json")


@cache
def _load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def find_route(document: dict[str, Any], method: str, path: str) -> str | None:
    """Return the path template of a request; fixed words win over parameters."""
    parts = path.split("/")
    fitting = [
        route
        for route, entry in document["paths"].items()
        if method.lower() in entry and _fits(route.split("/"), parts)
    ]
    return min(fitting, key=lambda route: route.count("{"), default=None)


def _fits(words: list[str], parts: list[str]) -> bool:
    return len(words) == len(parts) and all(
        word == part or (word.startswith("{") and part)
        for word, part in zip(words, parts, strict=True)
    )


def parameters(document: dict[str, Any], route: str, method: str) -> list[dict[str, Any]]:
    """Return all parameters of an operation, those of its path included."""
    entry = document["paths"][route]
    return [*entry.get("parameters", []), *entry[method.lower()].get("parameters", [])]


def check_request(
    document: dict[str, Any], method: str, path: str, query: dict[str, str], body: object
) -> str:
    """Assert that a request is one the description knows; return its route."""
    route = find_route(document, method, path)
    assert route, f"{method} {path} is not described"
    known = {
        one["name"]: one for one in parameters(document, route, method) if one["in"] == "query"
    }
    assert not set(query) - set(known), f"{method} {route}: {sorted(set(query) - set(known))}"
    absent = {name for name, one in known.items() if one.get("required")} - set(query)
    assert not absent, f"{method} {route}: {sorted(absent)} missing"
    for name, text in query.items():
        allowed = known[name].get("enum")
        assert not allowed or text in allowed, f"{method} {route}: {name}={text}"
    wanted = [one for one in parameters(document, route, method) if one["in"] == "body"]
    if body is not None:
        assert wanted, f"{method} {route} takes no body"
        validate(document, wanted[0]["schema"], body)
    return route


def check_answer(
    document: dict[str, Any], method: str, route: str, status: int, body: object
) -> None:
    """Assert that an answer is one the description knows; refusals need not be declared."""
    answers = document["paths"][route][method.lower()]["responses"]
    if str(status) in answers:
        schema = answers[str(status)].get("schema")
        if schema is not None and status < 400:
            validate(document, schema, _without_nulls(body))
        return
    assert status >= 400, f"{method} {route}: {status} is not declared"
    assert isinstance(body, dict), body
    assert isinstance(body["message"], str), body


def validate(document: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    """Assert that a value fits a schema of the document."""
    jsonschema.Draft4Validator({"definitions": document["definitions"], **schema}).validate(value)


def _without_nulls(value: object) -> object:
    """Drop nulls, which stand for absent values in answers.

    A required property that is null then counts as missing, except for the virtual machine of an
    unattached vGPU, about which the description and common sense disagree.
    """
    if isinstance(value, dict):
        kept = {name: _without_nulls(one) for name, one in value.items() if one is not None}
        if "vgpu_id" in value and "virtual_machine" in value and not value["virtual_machine"]:
            nobody = {"id": 0, "name": "", "cloudspace_id": "", "cloudspace_name": ""}
            return {**kept, "virtual_machine": nobody}
        return kept
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
