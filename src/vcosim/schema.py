"""Schemas of the API description as msgspec types, so that checking runs in C.

A body is checked by converting it to the type; the result of the conversion is thrown away. In
requests every declared type holds strictly. In answers an optional property may also be ``null``:
the platform's framework writes absent values that way, and its description (Swagger 2.0) has no
word for it.
"""

import keyword
from typing import Any, Literal, Optional, Union

import msgspec

SCALARS: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
# The vendor requires this one and yet a reservation without a VM has nothing to put there.
# What the real cloud answers is unknown, so an answer may hold null or an object half empty.
UNSETTLED = frozenset({("MenejaStructsVcoDataclassesGpuVGPUInfoStruct", "virtual_machine")})


class Schemas:
    """The definitions of one description, built into types once each."""

    def __init__(self, definitions: dict[str, Any]) -> None:  # JSON schemas, as loaded
        self._definitions = definitions
        self._built: dict[tuple[str, bool], Any] = {}

    def type_of(self, schema: dict[str, Any], *, answer: bool) -> Any:  # a type, for msgspec
        """Return the msgspec type of a schema, in its loose form for answers."""
        if "$ref" in schema:
            return self._named(schema["$ref"].removeprefix("#/definitions/"), answer=answer)
        if "allOf" in schema:
            return self.type_of(schema["allOf"][0], answer=answer)
        if "enum" in schema:
            return Literal[tuple(schema["enum"])]
        if schema.get("type") == "array":
            return list[self.type_of(schema["items"], answer=answer)]  # type: ignore[misc]  # built at run time
        return SCALARS.get(schema.get("type", ""), dict[str, Any])

    def _named(self, name: str, *, answer: bool) -> Any:  # a type, for msgspec
        key = (name, answer)
        if key not in self._built:
            self._built[key] = self._object(name, self._definitions[name], answer=answer)
        return self._built[key]

    def _object(self, name: str, schema: dict[str, Any], *, answer: bool) -> Any:  # a type
        properties = schema.get("properties")
        if not properties:
            return dict[str, Any]
        required = set(schema.get("required", ()))
        ordered = sorted(properties, key=lambda one: one not in required)
        fields: list[Any] = []
        renamed: dict[str, str] = {}
        for number, field in enumerate(ordered):
            python = (
                f"field_{number}" if not field.isidentifier() or keyword.iskeyword(field) else field
            )
            renamed[python] = field
            kind = self.type_of(properties[field], answer=answer)
            if answer and (name, field) in UNSETTLED:
                kind = Optional[Union[kind, dict[str, Any]]] if kind is dict else Any  # noqa: UP007, UP045 - built at run time
            if field in required:
                fields.append((python, kind))
            else:
                loose = Optional[kind] if answer else kind  # noqa: UP045 - built at run time
                fields.append((python, Union[loose, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007 - built at run time
        return msgspec.defstruct(
            name,
            fields,
            rename=renamed,
            forbid_unknown_fields=schema.get("additionalProperties") is False,
        )


def mismatch(kind: Any, value: object) -> str | None:  # a type built above
    """Return why a JSON value does not fit a type, or None."""
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        return str(error)
    return None
