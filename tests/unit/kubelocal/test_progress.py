"""Time left, and what is shown of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kubelocal.progress import Estimate, PlainProgress, RichProgress, for_console


def test_time_left_is_nominal_at_first_and_measured_later() -> None:
    """A machine half as fast as the nominal one doubles what is left once that is known."""
    estimate = Estimate(0.0)
    estimate.plan({"a": 100.0, "b": 100.0})
    assert estimate.left(5.0) == 200.0
    estimate.advance("a", 0.5)
    assert estimate.left(100.0) == pytest.approx(300.0)
    estimate.advance("a", 0.2)  # never back
    assert estimate.done == 50.0
    estimate.advance("a", 1)
    estimate.advance("b", 2)  # never above
    assert estimate.left(1000.0) == 0.0


def test_plain_lines_are_few_and_say_the_time_left() -> None:
    """One for an end, one each 15 s, none in between."""
    now = [0.0]
    lines: list[str] = []
    progress = PlainProgress(lines.append, lambda: now[0])
    progress.plan({"etcd": 40.0})
    for second in range(1, 31):
        now[0] = float(second)
        progress.advance("etcd", second / 40)
    progress.advance("etcd", 1)
    assert lines == [
        "  etcd: 38% (about 25 s left in all)",
        "  etcd: 75% (about 10 s left in all)",
        "  etcd: done (about 0 s left in all)",
    ]


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines() -> None:
    """Without being told."""
    bar = for_console(Console(file=io.StringIO(), force_terminal=True))
    assert isinstance(bar, RichProgress)
    assert isinstance(for_console(Console(file=io.StringIO())), PlainProgress)


def test_the_bar_shows_name_part_and_time_left_and_goes_away() -> None:
    """And lets lines be printed above it."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    progress = RichProgress(console)
    progress.plan({"kube-apiserver": 195.0})
    progress.say("building kube-apiserver")
    progress.advance("kube-apiserver", 0.5)
    progress.close()
    progress.close()
    shown = output.getvalue()
    assert "building kube-apiserver" in shown
    assert "50 %" in shown
    assert "left" in shown
