"""The documentation of fields and members: the strings written under them in their source."""

import ast
import inspect
import re
import textwrap
from enum import StrEnum
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


def member_docs(enum: type[StrEnum]) -> dict[str, str]:
    """Return value → documentation of an enum's members, in their order."""
    docs = _own_docs(enum)
    return {member.value: docs.get(name, "") for name, member in enum.__members__.items()}


def _own_docs(documented: type) -> dict[str, str]:
    module = ast.parse(textwrap.dedent(inspect.getsource(documented)))
    body = next(node for node in module.body if isinstance(node, ast.ClassDef)).body
    return {
        name: _flow(after.value.value)
        for statement, after in pairwise(body)
        if (name := _assigned(statement))
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _assigned(statement: ast.stmt) -> str:
    """Return the one name that a statement assigns, empty if it is no such statement."""
    if isinstance(statement, ast.AnnAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def _flow(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
