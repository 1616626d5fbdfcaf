"""Attribute docstrings are the documentation of fields."""

from typing import ClassVar

from msgspec import Struct

from capvco.api.fielddocs import class_doc, field_docs


class Base(Struct, frozen=True):
    """A base."""

    first: int = 1
    """Inherited."""


class Derived(Base, frozen=True):
    """A struct.

    And a paragraph
    in two lines.
    """

    constant: ClassVar[int] = 3
    second: int = 2
    """Own,
    over two lines."""
    third: int = 3

    def method(self) -> int:
        """Not a field."""
        return self.third


def test_fields_with_inherited_ones() -> None:
    """Lines are joined; what has no docstring is left out."""
    assert field_docs(Derived) == {"first": "Inherited.", "second": "Own, over two lines."}


def test_paragraphs_of_a_class() -> None:
    """Each paragraph becomes one line."""
    assert class_doc(Derived) == "A struct.\n\nAnd a paragraph in two lines."


def test_a_class_without_documentation() -> None:
    """Nothing to say is not an error."""

    class Bare(Struct):
        pass

    assert class_doc(Bare) == ""
