"""What a service says when it is done for now."""

import pytest

from capvco.api.conditions import Reason
from capvco.services.outcome import Pending, Terminal


def test_pending_is_no_failure_unless_it_says_so() -> None:
    """Waiting is normal; a person is told only of what is not."""
    assert not Pending(Reason.CREATING_VM, "wait", 5.0).failure


def test_terminal_carries_its_reason() -> None:
    """The reason becomes the condition's, the message is what is logged too."""
    with pytest.raises(Terminal, match="no such image") as caught:
        raise Terminal(Reason.IMAGE_UNAVAILABLE, "no such image")
    assert (caught.value.reason, caught.value.message) == (
        Reason.IMAGE_UNAVAILABLE,
        "no such image",
    )
