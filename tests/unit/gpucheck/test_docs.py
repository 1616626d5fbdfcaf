"""The guide documents what there is."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from capvco.cli.access import VARIABLES
from capvco.cli.gpucheck.codes import Code
from capvco.cli.gpucheck.holdings import AttachedTo, Holding, Totals
from capvco.cli.gpucheck.offers import Card, Offer, Plan
from capvco.cli.gpucheck.owners import OwnerClass
from capvco.cli.gpucheck.releases import Outcome, Result
from capvco.cli.gpucheck.reports import ListReport, OffersReport, ReleaseReport, TypeReport
from capvco.cli.places import Trouble

GUIDE = (Path(__file__).parents[3] / "docs" / "gpucheck.md").read_text(encoding="utf-8")
TYPES: tuple[type[Struct], ...] = (
    *(OffersReport, TypeReport, ListReport, ReleaseReport, Trouble),
    *(Offer, Card, Plan, Holding, AttachedTo, Totals, Result),
)


def words() -> Iterator[str]:
    for struct in TYPES:
        yield from (field.encode_name for field in msgspec.structs.fields(struct))
    yield from (*OwnerClass, *Outcome, *VARIABLES.values())


@pytest.mark.parametrize("word", sorted(set(words())))
def test_every_field_class_outcome_and_variable_is_in_the_guide(word: str) -> None:
    """Whoever reads the JSON finds it there."""
    assert re.search(rf"`{re.escape(word)}(\[\])?`", GUIDE)


def test_the_exit_codes_are_those_of_the_guide() -> None:
    """All of them, and no others."""
    table = GUIDE.partition("## Exit codes")[2].partition("## JSON")[0]
    assert {int(n) for n in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {*Code}
