"""The guide documents what there is."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from capvco.cli.access import VARIABLES
from capvco.cli.imagepublish.codes import Code
from capvco.cli.imagepublish.options import Options
from capvco.cli.imagepublish.reports import Outcome, Report, Result

GUIDE = (Path(__file__).parents[3] / "docs" / "imagepublish.md").read_text(encoding="utf-8")


def words() -> Iterator[str]:
    for struct in (Report, Result):
        yield from (field.encode_name for field in msgspec.structs.fields(struct))
    yield from (*Outcome, *VARIABLES.values())
    yield from (f"--{field.name.replace('_', '-')}" for field in fields(Options))


@pytest.mark.parametrize("word", sorted(set(words())))
def test_every_flag_field_outcome_and_variable_is_in_the_guide(word: str) -> None:
    """Whoever reads the JSON finds it there."""
    assert re.search(rf"`{re.escape(word)}(\[\])?`", GUIDE)


def test_the_exit_codes_are_those_of_the_guide() -> None:
    """All of them, and no others."""
    table = GUIDE.partition("## Exit codes")[2].partition("## JSON")[0]
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {*Code}
