"""The vocabulary in which CAPVCO explains itself is documented, whole."""

import re

import pytest

from capvco.api.conditions import ConditionType, Reason
from capvco.api.fielddocs import member_docs

KUBERNETES_REASON = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_meaning_and_a_cure(reason: Reason) -> None:
    """A reason without a cure would leave its reader alone at night."""
    meaning, marker, cure = member_docs(Reason)[reason].partition("Cure: ")
    assert marker
    assert meaning.strip()
    assert cure.strip()


@pytest.mark.parametrize("word", [*Reason, *ConditionType])
def test_every_word_is_legal_in_a_condition(word: str) -> None:
    """Cluster API mirrors reasons, and an illegal one would fail the Machine's own status."""
    assert KUBERNETES_REASON.match(word)


def test_every_condition_is_documented() -> None:
    """Each type says what it is about."""
    assert all(member_docs(ConditionType).values())
