"""CEL rules and schema words that a type carries into its schema."""

from msgspec import Meta, Struct

SENTENCE = "sentence"


class Rule(Struct, frozen=True):
    """A rule of x-kubernetes-validations; the message is a whole sentence for the user."""

    rule: str
    message: str
    field: str = ""
    """The field that an error points at, as a path from the object with the rule: ``.imageID``."""


def keyed_list(key: str, *, most: int, least: int | None = None) -> Meta:
    """Mark a list whose items are told apart by one field, so that appliers own items, not all."""
    words = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Meta(min_length=least, max_length=most, extra_json_schema=words)


def worded_pattern(pattern: str, sentence: str, *, most: int, least: int | None = None) -> Meta:
    """Limit a string by a pattern, and say in words what is possible when it does not match."""
    return Meta(min_length=least, max_length=most, pattern=pattern, extra={SENTENCE: sentence})
