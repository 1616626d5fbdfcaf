"""Structs become structural schemas."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import pytest
from msgspec import Meta, Struct, convert, field

from capvco.api.crds import definitions
from capvco.api.rules import Rule, keyed_list, worded_pattern
from capvco.api.schema import NotStructural, Schema, kind_schema, schema_of

ALL_KINDS = {definition.kind: definition for definition in definitions()}


class Inner(Struct, frozen=True, kw_only=True):
    """An inner object.

    Its second paragraph.
    """

    port: Annotated[int, Meta(gt=0, lt=65536)] = 6443
    """Where it listens."""


class Sample(Struct, frozen=True, rename="camel", kw_only=True):
    """One of everything."""

    __rules__: ClassVar[tuple[Rule, ...]] = (Rule("self.flag", "flag must be on", field=".flag"),)

    flag: bool
    """A flag,
    in two lines."""

    colour: Literal["red", "blue"] = "red"
    big_number: Annotated[int, Meta(ge=1)] | None = None
    label: Annotated[str, worded_pattern(r"^\d+$", "digits only, such as 42", most=9)] = ""
    inners: Annotated[tuple[Inner, ...], keyed_list("port", most=3)] = ()
    inner: Inner | None = None
    """The inner one."""
    names: Annotated[dict[str, Annotated[str, Meta(max_length=5)]], Meta(max_length=2)] = field(
        default_factory=dict
    )
    odd: str = field(default="", name="oddID")


class Unsayable(Struct, frozen=True):
    """Has a type that no structural schema has."""

    either: int | str


def properties(schema: Schema) -> dict[str, Schema]:
    return convert(schema["properties"], dict[str, Schema])


def nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Walk a schema with all that is below it."""
    yield path, schema
    for name, child in convert(schema.get("properties", {}), dict[str, Schema]).items():
        yield from nodes(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from nodes(convert(schema[word], Schema), f"{path}[]")


def kind_nodes() -> list[tuple[str, Schema]]:
    return [
        found
        for name, definition in ALL_KINDS.items()
        for found in nodes(kind_schema(definition.type, definition.spec_rules), name)
    ]


def is_envelope(path: str) -> bool:
    return path.split(".")[1:] in (["apiVersion"], ["kind"], ["metadata"])


def is_bounded(schema: Schema) -> bool:
    if "additionalProperties" in schema:
        return "maxProperties" in schema
    limits = {"string": {"maxLength", "enum"}, "array": {"maxItems"}}
    wanted = limits.get(str(schema["type"]))
    return wanted is None or bool(schema.keys() & wanted)


def test_one_of_everything() -> None:
    """Each type, limit, default and rule has its word in the schema."""
    inner_properties = {
        "port": {
            "description": "Where it listens.",
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "maximum": 65535,
            "default": 6443,
        }
    }
    assert schema_of(Sample) == {
        "description": "One of everything.",
        "type": "object",
        "required": ["flag"],
        "x-kubernetes-validations": [
            {"rule": "self.flag", "message": "flag must be on", "fieldPath": ".flag"}
        ],
        "properties": {
            "flag": {"description": "A flag, in two lines.", "type": "boolean"},
            "colour": {"type": "string", "enum": ["blue", "red"], "default": "red"},
            "bigNumber": {"type": "integer", "format": "int64", "minimum": 1},
            "label": {
                "type": "string",
                "maxLength": 9,
                "x-kubernetes-validations": [
                    {"rule": r"self.matches(r'^\d+$')", "message": "digits only, such as 42"}
                ],
            },
            "inners": {
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port"],
                "items": {
                    "description": "An inner object.\n\nIts second paragraph.",
                    "type": "object",
                    "properties": inner_properties,
                },
            },
            "inner": {
                "description": "The inner one.\n\nIts second paragraph.",
                "type": "object",
                "properties": inner_properties,
            },
            "names": {
                "type": "object",
                "maxProperties": 2,
                "additionalProperties": {"type": "string", "maxLength": 5},
            },
            "oddID": {"type": "string"},
        },
    }


def test_status_has_no_defaults() -> None:
    """The apiserver must not write a status that no controller has seen."""
    assert "default" not in str(schema_of(Sample, defaults=False))


def test_a_type_without_a_structural_schema_is_refused() -> None:
    """The error names the struct and the field."""
    with pytest.raises(NotStructural, match=r"Unsayable\.either: a union of 2 types"):
        schema_of(Unsayable)


def test_a_pattern_with_a_quote_is_refused() -> None:
    """It could not be written as a raw CEL string."""

    class Quoted(Struct, frozen=True):
        """Has a quote in its pattern."""

        text: Annotated[str, worded_pattern("^'$", "one quote", most=1)]

    with pytest.raises(NotStructural, match="quote"):
        schema_of(Quoted)


def test_each_node_is_structural() -> None:
    """A node has one type, and none of the words that structural schemas forbid."""
    plain = {"object", "array", "string", "integer", "boolean"}
    forbidden = {"$ref", "anyOf", "oneOf", "allOf", "nullable", "title"}
    wrong = [
        path
        for path, schema in kind_nodes()
        if schema["type"] not in plain or schema.keys() & forbidden
    ]
    assert wrong == []


def test_each_node_is_bounded() -> None:
    """Limits everywhere keep objects small and the cost of CEL rules estimable."""
    unbounded = [
        path for path, schema in kind_nodes() if not is_bounded(schema) and not is_envelope(path)
    ]
    assert unbounded == []


def test_each_field_is_documented() -> None:
    """``kubectl explain`` has a sentence for every field."""
    silent = [
        path
        for path, schema in kind_nodes()
        if not str(schema.get("description", "")).endswith(".")
        and not is_envelope(path)
        and not path.endswith("[]")
    ]
    assert silent == []


def test_each_refusal_is_a_sentence() -> None:
    """A rule of a spec says in words what is possible; a bare pattern would not."""
    terse = [
        path
        for path, schema in kind_nodes()
        for rule in convert(schema.get("x-kubernetes-validations", []), list[dict[str, str]])
        if len(rule["message"]) < 40
    ]
    bare = [path for path, schema in kind_nodes() if ".spec" in path and "pattern" in schema]
    assert (terse, bare) == ([], [])


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("VCOMachine", "status.gpus"),
        ("VCOMachine", "status.conditions"),
        ("VCOCluster", "spec.sites"),
        ("VCOCluster", "status.sites"),
        ("VCOCluster", "status.failureDomains"),
        ("VCOCluster", "status.conditions"),
    ],
)
def test_lists_of_objects_are_keyed(kind: str, path: str) -> None:
    """Two appliers of one list must not remove each other's items."""
    schemas = dict(nodes(kind_schema(ALL_KINDS[kind].type), kind))
    assert schemas[f"{kind}.{path}"]["x-kubernetes-list-type"] == "map"


def test_no_failure_domain_in_a_machine_spec() -> None:
    """If it existed, Cluster API would overwrite Machine.spec.failureDomain with it."""
    spec = properties(kind_schema(ALL_KINDS["VCOMachine"].type))["spec"]
    assert "failureDomain" not in properties(spec)


def test_field_names_on_the_wire() -> None:
    """Names are spelled as Kubernetes and the platform spell them: ID, not Id, where that is so."""
    names = {
        path.removesuffix("[]").rpartition(".")[2]
        for path, _ in kind_nodes()
        if "." in path.removesuffix("[]")
    }
    assert {name for name in names if "id" in name.lower() and name != "identityRef"} == {
        "id",
        "cloudspaceID",
        "externalNetworkID",
        "imageID",
        "loadBalancerID",
        "profileId",
        "providerID",
        "serverPoolID",
        "vgpuId",
        "vmID",
    }
    assert {"memoryMiB", "diskGiB", "vcpus", "bootType", "driverVersion", "externalIP"} <= names
    assert {"failureReason", "failureMessage", "failureDomains", "controlPlane"} <= names
