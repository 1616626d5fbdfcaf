"""A request, read against the description before any handler sees it."""

import json
import re
from typing import Any

import msgspec

from vcosim.description import Operation, Parameter
from vcosim.reply import RefusedError
from vcosim.schema import mismatch

INTEGER = re.compile(r"-?[0-9]{1,4000}")
PLAIN = re.compile(r"[0-9]{1,30}")
WORDS = {"true": True, "1": True, "false": False, "0": False}
LIMIT = 2**63
INVALID = "Input payload validation failed"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request that fits the description; parameters have their types and defaults."""

    operation: Operation
    path: dict[str, str | int]
    query: dict[str, object]
    body: dict[str, Any]
    raw: bytes = b""
    customer: str = ""
    customers: tuple[str, ...] = ()
    """The customers that the token reaches."""
    user: str = ""
    token: str = ""
    hidden: frozenset[str] = frozenset()
    """Locations that do not answer just now, in lists over all locations."""

    def at(self, name: str) -> str:
        """Return a path parameter as text."""
        return str(self.path[name])

    def text(self, name: str) -> str:
        """Return a query parameter, or an empty text."""
        value = self.query.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter; absent is false."""
        return bool(self.query.get(name))

    def number(self, name: str) -> int | None:
        """Return an integer query parameter, or None."""
        value = self.query.get(name)
        return value if isinstance(value, int) else None

    def required(self, name: str) -> int:
        """Return an integer query parameter that the description requires."""
        value = self.query[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is described as an integer")
        return value

    def many(self, name: str) -> list[Any]:
        """Return an array query parameter."""
        value = self.query.get(name)
        return value if isinstance(value, list) else []


class OutOfRangeError(RefusedError):
    """An integer that the description allows and nobody can store."""


def invalid(errors: dict[str, str]) -> RefusedError:
    """Refuse a request that does not fit the description."""
    return RefusedError(400, INVALID, errors)


def read_path(operation: Operation, values: dict[str, str]) -> dict[str, str | int] | None:
    """Return typed path parameters, or None when one has the wrong type (no such path)."""
    typed: dict[str, str | int] = {}
    for parameter in operation.path:
        text = values[parameter.name]
        if parameter.type == "integer":
            if not PLAIN.fullmatch(text) or int(text) >= LIMIT:
                return None
            typed[parameter.name] = int(text)
        elif not text:
            return None
        else:
            typed[parameter.name] = text
    return typed


def read_query(operation: Operation, pairs: list[tuple[str, str]]) -> dict[str, object]:
    """Return typed query parameters with defaults filled in; raises RefusedError (400)."""
    errors: dict[str, str] = {}
    values: dict[str, object] = {
        name: one.default for name, one in operation.query.items() if one.default is not None
    }
    seen: set[str] = set()
    for name, text in pairs:
        parameter = operation.query.get(name)
        if parameter is None:
            errors[name] = f"Unknown query parameter {name!r}"
        elif name in seen:
            errors[name] = f"{name!r} is given twice; arrays are one comma-separated value"
        else:
            seen.add(name)
            _read(parameter, text, values, errors)
    for name, parameter in operation.query.items():
        if parameter.required and name not in seen:
            errors[name] = "Missing required parameter in the query string"
    if errors:
        raise invalid(errors)
    _bounded(values)
    return values


def _bounded(value: object, where: str = "") -> None:
    """Refuse integers beyond 64 bits, wherever they are."""
    if isinstance(value, int) and not -LIMIT < value < LIMIT:
        raise OutOfRangeError(400, INVALID, {where: "integer out of range"})
    if isinstance(value, dict):
        for name, one in value.items():
            _bounded(one, f"{where}.{name}".lstrip("."))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            _bounded(one, f"{where}[{number}]")


def _read(
    parameter: Parameter, text: str, values: dict[str, object], errors: dict[str, str]
) -> None:
    try:
        if parameter.type == "array":
            parts = text.split(",") if text else []
            values[parameter.name] = [_scalar(parameter.items, part) for part in parts]
        else:
            values[parameter.name] = _scalar(parameter.type, text)
    except ValueError as error:
        errors[parameter.name] = str(error)
        return
    if parameter.enum and text not in parameter.enum:
        errors[parameter.name] = f"{text!r} is not one of {', '.join(parameter.enum)}"


def _scalar(kind: str, text: str) -> object:
    if kind == "integer":
        if not INTEGER.fullmatch(text):
            raise ValueError(f"{text!r} is not an integer")
        return int(text)
    if kind == "boolean":
        if text.lower() not in WORDS:
            raise ValueError(f"{text!r} is not a boolean")
        return WORDS[text.lower()]
    return text


def read_body(operation: Operation, raw: bytes, media: str) -> dict[str, Any]:
    """Return the JSON body, {} where there is none; raises RefusedError (400)."""
    if operation.raw_body:
        if raw and media != "application/octet-stream":
            raise invalid({"": f"Content-Type {media!r} must be application/octet-stream"})
        return {}
    if operation.body is None:
        if raw:
            raise invalid({"": "this operation takes no body"})
        return {}
    if not raw:
        if operation.body_required:
            raise invalid({"": "a JSON body is required"})
        return {}
    return _json(operation, raw, media)


def _json(operation: Operation, raw: bytes, media: str) -> dict[str, Any]:
    if media != "application/json":
        raise invalid({"": f"Content-Type {media!r} must be application/json"})
    try:
        body = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise invalid({"": f"body is not JSON: {error}"}) from error
    if why := mismatch(operation.body, body):
        message, _, where = why.partition(" - at `")
        raise invalid({where.strip("`").removeprefix("$").lstrip("."): message})
    if not isinstance(body, dict):
        raise invalid({"": "body is not an object"})
    _bounded(body)
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
