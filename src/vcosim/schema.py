"""Schemas of the API description as msgspec types, so that checking runs in C.

A body is checked by converting it to the type; the result of the conversion is thrown away. In
requests every declared type holds strictly. In answers an optional property may also be ``null``:
the platform's framework writes absent values that way, and its description (Swagger 2.0) has no
word for it.
"""

import keyword
from typing import Any, Literal  # Any: a JSON schema, or a type built from one

import msgspec

SCALARS: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
# The vendor requires this one and yet a reservation without a VM has nothing to put there.
# What the real cloud answers is unknown, so an answer may hold null or an object of nulls.
UNSETTLED = frozenset({("MenejaStructsVcoDataclassesGpuVGPUInfoStruct", "virtual_machine")})


class Schemas:
    """The definitions of one description, built into types once each."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._built: dict[tuple[str, bool], Any] = {}

    def type_of(self, schema: dict[str, Any], *, answer: bool) -> Any:  # noqa: ANN401 - a built type
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

    def properties(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the properties of an object schema or of what it refers to."""
        name = schema.get("$ref", "").removeprefix("#/definitions/")
        found: dict[str, Any] = self._definitions.get(name, schema).get("properties", {})
        return found

    def _named(self, name: str, *, answer: bool) -> Any:  # noqa: ANN401 - a built type
        key = (name, answer)
        if key not in self._built:
            self._built[key] = self._object(name, self._definitions[name], answer=answer)
        return self._built[key]

    def _object(self, name: str, schema: dict[str, Any], *, answer: bool) -> Any:  # noqa: ANN401 - a built type
        properties: dict[str, Any] = schema.get("properties", {})
        if not properties:
            return dict[str, Any]
        required = set(schema.get("required", ()))
        ordered = sorted(properties, key=lambda one: one not in required)
        python = {field: _identifier(field, number) for number, field in enumerate(ordered)}
        return msgspec.defstruct(
            name,
            [
                self._field(
                    name, field, python[field], properties[field], answer, field in required
                )
                for field in ordered
            ],
            rename={known: field for field, known in python.items()},
            forbid_unknown_fields=schema.get("additionalProperties") is False,
        )

    def _field(  # noqa: PLR0913, PLR0917 - all that makes a field
        self,
        owner: str,
        name: str,
        python: str,
        schema: dict[str, Any],
        answer: bool,
        required: bool,
    ) -> Any:  # noqa: ANN401 - what defstruct takes
        kind = self.type_of(schema, answer=answer)
        if answer and (owner, name) in UNSETTLED:
            kind = dict[str, int | str | None] | None
        if required:
            return (python, kind)
        loose = kind | None if answer else kind
        return (python, loose | msgspec.UnsetType, msgspec.UNSET)


def _identifier(name: str, number: int) -> str:
    usable = name.isidentifier() and not keyword.iskeyword(name)
    return name if usable else f"field_{number}"


def mismatch(kind: Any, value: object) -> str | None:  # noqa: ANN401 - a type built above
    """Return why a JSON value does not fit a type, or None."""
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        return str(error)
    return None
