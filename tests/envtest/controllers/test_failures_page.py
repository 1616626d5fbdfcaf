"""The page of failures names tests that exist, and leaves out no failure."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "failures.md").read_text()
ROW = re.compile(r"^\| (R\d\d) \|.*\| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ABOUT_NODES = {"R45", "R46"}
"""Failures inside a node, where no VM of the simulator has an inside."""


def names_in(path: str) -> set[str]:
    """Return the names of the functions in a file."""
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in ast.walk(tree) if isinstance(one, kinds)}


def test_every_test_exists() -> None:
    """A test that was renamed is renamed on the page."""
    named = TEST.findall(PAGE)
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(path)]
    assert named
    assert not missing


def test_every_failure_has_a_line() -> None:
    """Each has a test, but for those inside a node, which say why not."""
    rows = dict(ROW.findall(PAGE))
    wanted = [*range(1, 58), *range(75, 79)]
    assert sorted(rows) == [f"R{number:02}" for number in wanted]
    assert {id_ for id_, shown in rows.items() if not TEST.search(shown)} == ABOUT_NODES
