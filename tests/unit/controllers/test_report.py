"""Conditions, their summary, and Events on transitions only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, Proposed, merge_conditions
from capvco.controllers import report
from capvco.controllers.report import Notice
from capvco.services.outcome import Pending
from tests.support.builders import a_condition
from tests.support.properties import always

WAITING = Pending(Reason.CREATING_VM, "the VM starts", 5.0)
UNAVAILABLE = Pending(Reason.GPU_TYPE_UNAVAILABLE, "no GPU type matches", 30.0, failure=True)
VM, GPU = ConditionType.VM_PROVISIONED, ConditionType.GPU_RESERVED


def test_conditions_of_parts() -> None:
    """A part holds, or does not hold for a reason."""
    assert report.true(VM) == Proposed("VMProvisioned", "True", "Ready", "")
    assert report.true(GPU, "took L4") == Proposed("GPUReserved", "True", "Ready", "took L4")
    assert report.false(VM, WAITING) == Proposed(
        "VMProvisioned", "False", "CreatingVM", "the VM starts"
    )
    assert report.paused(yes=True, why="x") == Proposed("Paused", "True", "Paused", "x")
    assert report.paused(yes=False) == Proposed("Paused", "False", "NotPaused", "")


@pytest.mark.parametrize(
    ("parts", "pending", "expected"),
    [
        ((), None, ("True", "Ready", "")),
        ((report.true(VM), report.true(GPU)), None, ("True", "Ready", "")),
        ((report.true(VM),), WAITING, ("False", "CreatingVM", "the VM starts")),
        (
            (report.true(VM), report.false(GPU, UNAVAILABLE)),
            None,
            ("False", "GPUTypeUnavailable", "no GPU type matches"),
        ),
        (
            (report.false(GPU, UNAVAILABLE), report.false(VM, WAITING)),
            None,
            ("False", "GPUTypeUnavailable", "no GPU type matches"),
        ),
        ((report.false(GPU, UNAVAILABLE),), WAITING, ("False", "CreatingVM", "the VM starts")),
        ((report.paused(yes=False), report.true(VM)), None, ("True", "Ready", "")),
    ],
)
def test_ready(
    parts: tuple[Proposed, ...], pending: Pending | None, expected: tuple[str, str, str]
) -> None:
    """What is waited for comes first, then the first part that does not hold; pause is no part."""
    ready = report.ready(parts, pending)
    assert (ready.type, ready.status, ready.reason, ready.message) == ("Ready", *expected)


def test_an_event_for_a_change() -> None:
    """A part that now holds is told by its name; Ready has its own word."""
    before = (a_condition("VMProvisioned", "False", "CreatingVM"),)
    after = (a_condition("VMProvisioned"),)
    assert report.notices(before, after, failing=False) == (
        Notice(warning=False, reason="VMProvisioned", message="VMProvisioned is True"),
    )
    assert report.notices((), (a_condition("Ready"),), failing=False) == (
        Notice(warning=False, reason="Ready", message="Ready is True"),
    )


def test_what_came_to_hold_together_is_one_event() -> None:
    """An Event is a write to the API server; a choice that was made has one of its own."""
    after = (
        a_condition("GPUReserved", message="took L4"),
        a_condition("GPUAttached"),
        a_condition("VMProvisioned"),
        a_condition("Ready"),
    )
    assert report.notices((), after, failing=False) == (
        Notice(
            warning=False,
            reason="VMProvisioned",
            message="GPUAttached, VMProvisioned are True",
        ),
        Notice(warning=False, reason="GPUReserved", message="took L4"),
    )


def test_a_failure_is_told_once_and_as_a_warning() -> None:
    """Ready repeats the part that does not hold: one Event says it."""
    said = "no GPU type matches"
    after = (
        a_condition("GPUReserved", "False", "GPUTypeUnavailable", said),
        a_condition("Paused", "False", "NotPaused"),
        a_condition("Ready", "False", "GPUTypeUnavailable", said),
    )
    assert report.notices((), after, failing=True) == (
        Notice(warning=True, reason="GPUTypeUnavailable", message=said),
    )
    assert report.notices(after, after, failing=True) == ()


def test_ready_alone_is_told() -> None:
    """A cause that belongs to no part has only Ready to tell it."""
    after = (a_condition("Ready", "False", "CredentialsInvalid", "the Secret is missing"),)
    assert report.notices((), after, failing=True) == (
        Notice(warning=True, reason="CredentialsInvalid", message="the Secret is missing"),
    )


def test_what_holds_is_no_warning() -> None:
    """While one part fails, another may come to hold."""
    after = (a_condition("GPUReserved"), a_condition("Ready", "False", "CreatingVM", "x"))
    told = report.notices((), after, failing=True)
    assert [(n.reason, n.warning) for n in told] == [("GPUReserved", False), ("CreatingVM", True)]


def test_another_message_is_no_change() -> None:
    """Numbers in a message change often; that is not news."""
    before = (a_condition("Ready", "False", "GPUTypeUnavailable", "1 free"),)
    after = (a_condition("Ready", "False", "GPUTypeUnavailable", "2 free"),)
    assert report.notices(before, after, failing=True) == ()


@pytest.mark.parametrize(
    "reason",
    [
        Reason.WAITING_FOR_OWNER,
        Reason.WAITING_FOR_BOOTSTRAP_DATA,
        Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE,
        Reason.WAITING_FOR_CONTROL_PLANE,
        Reason.WORKLOAD_CLUSTER_UNREACHABLE,
    ],
)
def test_normal_waiting_is_no_event(reason: Reason) -> None:
    """Every machine passes through these, or has the same cause; the condition is enough."""
    assert report.notices((), (a_condition("Ready", "False", reason, "x"),), failing=False) == ()


def test_pause_and_its_end() -> None:
    """That something is paused is told; that it is not is the normal state."""
    off, on = a_condition("Paused", "False", "NotPaused"), a_condition("Paused", "True", "Paused")
    assert [n.reason for n in report.notices((off,), (on,), failing=False)] == ["Paused"]
    assert report.notices((on,), (off,), failing=False) == ()


# Merging conditions.

TYPES = st.sampled_from(["Ready", "Paused", "VMProvisioned", "Foreign"])
STATUSES = st.sampled_from(["True", "False", "Unknown"])
WANTED = st.lists(
    st.builds(
        Proposed,
        type=TYPES,
        status=STATUSES,
        reason=st.sampled_from(["A", "B"]),
        message=st.sampled_from(["", "x"]),
    ),
    unique_by=lambda proposed: proposed.type,
)
PRESENT = st.lists(
    st.builds(
        a_condition,
        TYPES,
        STATUSES,
        st.sampled_from(["A", "B"]),
        since=st.sampled_from(["t1", "t2"]),
    ),
    unique_by=lambda condition: condition.type,
)


@always
@given(PRESENT, WANTED, st.integers(1, 3))
def test_merging(present: list[Condition], wanted: list[Proposed], generation: int) -> None:
    """The time of a transition moves with the status alone; others' conditions stay as they are."""
    merged = merge_conditions(present, wanted, generation=generation, at="now")
    before = {c.type: c for c in present}
    asked = {p.type: p for p in wanted}
    assert [c.type for c in merged] == sorted({*before, *asked})
    for condition in merged:
        was, want = before.get(condition.type), asked.get(condition.type)
        if want is None:
            assert condition == was
            continue
        assert (condition.status, condition.reason, condition.message) == (
            want.status,
            want.reason,
            want.message,
        )
        assert condition.observed_generation == generation
        same = was is not None and was.status == want.status
        assert condition.last_transition_time == (
            was.last_transition_time if was and same else "now"
        )


@always
@given(PRESENT, WANTED)
def test_merging_again_changes_nothing(present: list[Condition], wanted: list[Proposed]) -> None:
    """An unchanged state is an equal tuple at any later time, and therefore no write."""
    once = merge_conditions(present, wanted, generation=1, at="now")
    assert merge_conditions(once, wanted, generation=1, at="later") == once
    assert merge_conditions(reversed(once), wanted, generation=1, at="later") == once


def test_merging_drops_what_is_dropped() -> None:
    """A condition that does not apply any more disappears; one that is wanted again is new."""
    present = (a_condition("GPUReserved"), a_condition("Ready"))
    merged = merge_conditions(present, (), generation=1, at="now", dropped=("GPUReserved", "x"))
    assert [c.type for c in merged] == ["Ready"]
    wanted = (Proposed("GPUReserved", "True", "Ready"),)
    (again,) = merge_conditions(
        present[:1], wanted, generation=1, at="now", dropped=("GPUReserved",)
    )
    assert again.last_transition_time == "now"


def test_a_long_message_is_cut_to_what_the_api_takes() -> None:
    """A list of a thousand cards must not make the status unwritable."""
    wanted = (Proposed("Ready", "False", "X", "x" * 40_000),)
    (condition,) = merge_conditions((), wanted, generation=0, at="now")
    assert len(condition.message) == 32768
    assert condition.observed_generation is None
