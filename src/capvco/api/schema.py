"""msgspec structs as structural OpenAPI v3 schemas, the form that a CRD carries.

A structural schema has neither ``$ref`` nor ``anyOf``, so structs are written out where they are
used and an optional field is one that may be absent; ``null`` is not a value. Only static defaults
are carried over: a computed one would look like drift to a ClusterClass.
"""

from collections.abc import Iterable, Mapping

import msgspec.inspect as mi
from msgspec import NODEFAULT, Struct

from capvco.api.fielddocs import class_doc, field_docs
from capvco.api.meta import ObjectMeta
from capvco.api.rules import SENTENCE, Rule

Schema = dict[str, object]

_INT32_MOST = 2**31 - 1


class NotStructural(TypeError):  # noqa: N818 - reads as what is wrong, as the rest of the errors
    """A field has a type that a structural schema cannot say."""


def schema_of(struct: type[Struct], *, defaults: bool = True) -> Schema:
    """Return the schema of a struct; raises NotStructural for a type it cannot carry.

    ``defaults`` off is for status: the apiserver must not write what no controller has seen.
    """
    fields = struct_fields(struct)
    properties = {
        field.encode_name: _field_schema(struct, field, defaults=defaults) for field in fields
    }
    return _object(struct, properties, [field.encode_name for field in fields if field.required])


def kind_schema(kind: type[Struct], spec_rules: Iterable[Rule] = ()) -> Schema:
    """Return the schema of a whole object; ``spec_rules`` hold for the spec of this kind alone."""
    properties: dict[str, Schema] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    for field in struct_fields(kind):
        properties[field.encode_name] = _field_schema(kind, field, defaults=field.name != "status")
    if own := validations(spec_rules):
        shared = validations(rules_of(_spec_struct(kind)))
        properties["spec"]["x-kubernetes-validations"] = [*shared, *own]
    return _object(kind, properties, ["spec"])


def struct_fields(struct: type[Struct]) -> tuple[mi.Field, ...]:
    """Return the fields of a struct as msgspec sees them."""
    info = mi.type_info(struct)
    if not isinstance(info, mi.StructType):
        raise NotStructural(f"{struct.__name__} is not a struct")
    return info.fields


def rules_of(struct: type[Struct]) -> tuple[Rule, ...]:
    """Return the CEL rules that a struct declares in ``__rules__``."""
    rules: tuple[Rule, ...] = getattr(struct, "__rules__", ())
    return rules


def validations(rules: Iterable[Rule]) -> list[Schema]:
    """Write rules as x-kubernetes-validations."""
    return [_validation(rule) for rule in rules]


def present(type_: mi.Type) -> mi.Type:
    """Return the type of a field when it is there: of ``T | None``, the T."""
    if not isinstance(type_, mi.UnionType):
        return type_
    members = [member for member in type_.types if not isinstance(member, mi.NoneType)]
    if len(members) != 1:
        raise NotStructural(f"a union of {len(members)} types has no structural schema")
    return members[0]


def unwrapped(type_: mi.Type) -> tuple[mi.Type, mi.Metadata | None]:
    """Split a type from the extra words that ``Meta`` carries for it."""
    return (type_.type, type_) if isinstance(type_, mi.Metadata) else (type_, None)


def static_default(field: mi.Field) -> str | int | bool | None:
    """Return the default that the apiserver should write; None where absence says the same."""
    value = field.default
    if value is NODEFAULT or not isinstance(value, (str, int, bool)) or value == "":
        return None
    return value


def _object(struct: type[Struct], properties: dict[str, Schema], required: list[str]) -> Schema:
    schema: Schema = {"description": class_doc(struct), "type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if rules := rules_of(struct):
        schema["x-kubernetes-validations"] = validations(rules)
    return schema


def _field_schema(struct: type[Struct], field: mi.Field, *, defaults: bool) -> Schema:
    try:
        schema = _type_schema(field.type, defaults=defaults)
    except NotStructural as error:
        raise NotStructural(f"{struct.__name__}.{field.name}: {error}") from error
    description = _description(field_docs(struct).get(field.name, ""), schema)
    ordered: Schema = {"description": description} if description else {}
    ordered |= {key: value for key, value in schema.items() if key != "description"}
    if defaults and (default := static_default(field)) is not None:
        ordered["default"] = default
    return ordered


def _spec_struct(kind: type[Struct]) -> type[Struct]:
    for field in struct_fields(kind):
        if field.name == "spec" and isinstance(field.type, mi.StructType):
            spec: type[Struct] = field.type.cls
            return spec
    raise NotStructural(f"{kind.__name__} has no spec")


def _description(doc: str, schema: Schema) -> str:
    """Say what the field is for, then what its type adds beyond its own first line."""
    of_type = str(schema.get("description", ""))
    if not doc:
        return of_type
    return "\n\n".join([doc, *of_type.split("\n\n")[1:]])


def _type_schema(type_: mi.Type, *, defaults: bool) -> Schema:
    inner, words = unwrapped(present(type_))
    schema = _plain_schema(inner, defaults=defaults)
    if words is None:
        return schema
    if words.extra_json_schema:
        schema |= words.extra_json_schema
    if words.extra and SENTENCE in words.extra:
        pattern = schema.pop("pattern")
        rule = Rule(f"self.matches({_cel_string(str(pattern))})", str(words.extra[SENTENCE]))
        schema["x-kubernetes-validations"] = validations([rule])
    return schema


def _plain_schema(type_: mi.Type, *, defaults: bool) -> Schema:  # noqa: PLR0911 - one per type
    match type_:
        case mi.StructType(cls=cls) if cls is ObjectMeta:
            return {"type": "object"}
        case mi.StructType(cls=cls):
            return schema_of(cls, defaults=defaults)
        case mi.BoolType():
            return {"type": "boolean"}
        case mi.IntType():
            return _integer(type_)
        case mi.StrType():
            limits = {"minLength": type_.min_length, "maxLength": type_.max_length}
            return {"type": "string"} | _given(limits | {"pattern": type_.pattern})
        case mi.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return {"type": "string", "enum": list(values)}
        case mi.VarTupleType():
            limits = {"minItems": type_.min_length, "maxItems": type_.max_length}
            items = _type_schema(type_.item_type, defaults=defaults)
            return {"type": "array", "items": items} | _given(limits)
        case mi.DictType(key_type=mi.StrType()):
            limits = {"minProperties": type_.min_length, "maxProperties": type_.max_length}
            of_values = _type_schema(type_.value_type, defaults=defaults)
            return {"type": "object", "additionalProperties": of_values} | _given(limits)
        case _:
            raise NotStructural(f"{type(type_).__name__} has no structural schema")


def _integer(type_: mi.IntType) -> Schema:
    low = type_.ge if type_.gt is None else type_.gt + 1
    high = type_.le if type_.lt is None else type_.lt - 1
    size = "int32" if high is not None and high <= _INT32_MOST else "int64"
    limits = {"minimum": low, "maximum": high, "multipleOf": type_.multiple_of}
    return {"type": "integer", "format": size} | _given(limits)


def _validation(rule: Rule) -> Schema:
    written: Schema = {"rule": rule.rule, "message": rule.message}
    return written | {"fieldPath": rule.field} if rule.field else written


def _given(limits: Mapping[str, object]) -> Schema:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _cel_string(text: str) -> str:
    """Write a string as a raw CEL literal, so that a pattern needs no escapes."""
    if "'" in text:
        raise NotStructural(f"the pattern {text} has a quote, which a raw CEL string cannot have")
    return f"r'{text}'"
