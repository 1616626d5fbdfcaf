"""CEL rules that a type carries into its schema."""

from msgspec import Struct


class Rule(Struct, frozen=True):
    """A rule of x-kubernetes-validations; the message is a whole sentence for the user."""

    rule: str
    message: str
