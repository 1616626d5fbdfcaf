"""The documentation of a struct's fields: the strings written under them in its source."""

import ast
import inspect
import re
import textwrap
from functools import cache
from itertools import pairwise

from msgspec import Struct


@cache
def field_docs(struct: type[Struct]) -> dict[str, str]:
    """Return field name → documentation, inherited fields included.

    Needs the source of the struct, so it is for generating documents, not for a running manager.
    """
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            docs.update(_own_docs(base))
    return docs


def class_doc(struct: type[Struct]) -> str:
    """Return the documentation of a struct, each paragraph on one line."""
    return _flow(struct.__doc__ or "")


def _own_docs(struct: type[Struct]) -> dict[str, str]:
    module = ast.parse(textwrap.dedent(inspect.getsource(struct)))
    body = next(node for node in module.body if isinstance(node, ast.ClassDef)).body
    return {
        statement.target.id: _flow(after.value.value)
        for statement, after in pairwise(body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _flow(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
