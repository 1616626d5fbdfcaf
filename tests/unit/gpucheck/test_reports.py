"""Exit codes, and how results are written for people."""

import pytest

from capvco.cli.gpucheck import tables
from capvco.cli.gpucheck.ages import worded
from capvco.cli.gpucheck.codes import Code, first
from capvco.cli.gpucheck.holdings import AttachedTo, Holding, totals
from capvco.cli.gpucheck.offers import Plan
from capvco.cli.gpucheck.owners import OwnerClass
from capvco.cli.gpucheck.releases import Outcome, old_enough, result
from capvco.cli.gpucheck.reports import ListReport, ReleaseReport, TypeReport
from capvco.cli.places import Trouble


def a_holding(
    owner: OwnerClass = OwnerClass.ORPHAN,
    *,
    name: str = "capvco-worker-1-gpu-0",
    age: int | None = None,
    exact: bool = False,
    vm: AttachedTo | None = None,
) -> Holding:
    return Holding(
        location="be",
        vgpu_id="vgpu-1",
        name=name,
        profile_id="card-1",
        model="NVIDIA A100",
        status="",
        vm=vm,
        in_bin=False,
        age_seconds=age,
        age_exact=exact,
        owner=owner,
        machine="",
        why="because",
    )


def a_list(*rows: Holding, errors: tuple[Trouble, ...] = ()) -> ListReport:
    return ListReport(
        customer="acme_1",
        errors=errors,
        locations=("be",),
        kubernetes=(),
        doubts=(),
        holdings=rows,
        totals=totals(rows, rows),
    )


def a_release(*outcomes: Outcome, unknown: bool = False) -> ReleaseReport:
    rows = (a_holding(OwnerClass.UNKNOWN),) if unknown else ()
    return ReleaseReport(
        customer="acme_1",
        locations=("be",),
        kubernetes=(),
        doubts=(),
        holdings=rows,
        totals=totals(rows, rows),
        results=tuple(result(a_holding(), outcome) for outcome in outcomes),
    )


def test_codes_of_a_list() -> None:
    """Incomplete before orphans before unknown; live and foreign ones need no hand."""
    live, orphan = a_holding(OwnerClass.LIVE), a_holding(OwnerClass.ORPHAN)
    foreign, unknown = a_holding(OwnerClass.FOREIGN), a_holding(OwnerClass.UNKNOWN)
    trouble = Trouble(location="nl", cause="no word")
    assert a_list().code is Code.FINE
    assert a_list(live, foreign).code is Code.FINE
    assert a_list(live, unknown).code is Code.OWNER_UNKNOWN
    assert a_list(unknown, orphan).code is Code.ORPHANS
    assert a_list(orphan, errors=(trouble,)).code is Code.PLATFORM


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (a_release(), Code.FINE),
        (a_release(Outcome.RELEASED, Outcome.GONE), Code.FINE),
        (a_release(Outcome.RELEASED, Outcome.FAILED, Outcome.TOO_YOUNG), Code.NOT_RELEASED),
        (a_release(Outcome.UNCONFIRMED), Code.NOT_RELEASED),
        (a_release(Outcome.DECLINED), Code.NOT_RELEASED),
        (a_release(Outcome.TOO_YOUNG, unknown=True), Code.ORPHANS),
        (a_release(Outcome.RELEASED, Outcome.SPARED), Code.OWNER_UNKNOWN),
        (a_release(unknown=True), Code.OWNER_UNKNOWN),
    ],
)
def test_codes_of_a_release(report: ReleaseReport, code: Code) -> None:
    """What was not done counts before what was not to be done."""
    assert report.code is code


def test_one_location_that_serves_a_type_is_enough() -> None:
    """Whoever asks all of them wants to know where."""
    yes, no = Plan(location="be", available=True), Plan(location="nl", available=False)
    assert TypeReport(customer="a", request="r", plans=(no, yes)).code is Code.FINE
    assert TypeReport(customer="a", request="r", plans=(no,)).code is Code.TYPE_UNAVAILABLE
    assert TypeReport(customer="a", request="r", plans=()).code is Code.TYPE_UNAVAILABLE


def test_every_code_but_the_interruption_has_its_place_in_the_order() -> None:
    """The order of the help text is complete."""
    assert first() is Code.FINE
    for code in set(Code) - {Code.INTERRUPTED}:
        assert first(code, Code.FINE) is code


def test_names_of_others_cannot_steer_the_terminal() -> None:
    """Names are anybody's text."""
    nasty = a_holding(name="capvco-\x1b[2J\x07[red]:bomb:\x9b-gpu-0")
    text = tables.holdings((nasty,)).plain
    assert not {"\x1b", "\x07", "\x9b"} & set(text)
    assert "capvco-?[2J?[red]:bomb:?-gpu-0" in text


def test_a_row_says_all() -> None:
    """Id, name, model, VM, age, owner and why."""
    vm = AttachedTo(id=7, name="worker-1", cloudspace_id="cs-1")
    text = tables.holdings((a_holding(OwnerClass.LIVE, vm=vm, age=7260, exact=True),)).plain
    for cell in ("vgpu-1", "capvco-worker-1-gpu-0", "NVIDIA A100", "worker-1 (7, cs-1)", "2h1m"):
        assert cell in text


def test_ages() -> None:
    """Exact, at least, or not known; and only a known one can be old enough."""
    young, old, never = a_holding(age=899), a_holding(age=3600), a_holding()
    assert [tables.age(row) for row in (old, a_holding(age=5, exact=True), never)] == [
        "≥ 1h",
        "5s",
        "?",
    ]
    assert [old_enough(row, 900) for row in (young, old, never)] == [False, True, False]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (3600, "1h"), (3725, "1h2m"), (90061, "1d1h"), (2592000, "30d")],
)
def test_lengths_of_time(seconds: int, text: str) -> None:
    """Two units are enough."""
    assert worded(seconds) == text


def test_totals_count_what_is_billed_and_what_is_shown() -> None:
    """A prefix narrows what is shown, not what is held."""
    rows = [a_holding(OwnerClass.LIVE), a_holding(), a_holding(OwnerClass.FOREIGN)]
    found = totals(rows, rows[:2])
    assert (found.held, found.shown, found.live, found.orphan, found.foreign) == (3, 2, 1, 1, 0)
