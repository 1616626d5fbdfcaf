"""A line chart of machines over time, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.results import Run

_WIDTH, _HEIGHT = 840, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 50
_COLOURS = ("#1b6ca8", "#c8553d", "#3c8d53", "#8a5aa8", "#b8860b", "#4a4a4a")
_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)


def svg(runs: Sequence[Run]) -> str:
    """Draw how many machines were provisioned at each moment of each run."""
    far = nice(max((point[0] for run in runs for point in run.series), default=1.0))
    high = nice(max((point[2] for run in runs for point in run.series), default=1))
    scale = _Scale(far, high)
    lines = [_line(run, scale, number) for number, run in enumerate(runs)]
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="14">Machines provisioned, over seconds</text>',
        *_axes(scale),
        *lines,
        "</svg>\n",
    )
    return "\n".join(parts)


def nice(value: float) -> float:
    """Return the round number at or above a value, for the end of an axis."""
    power = 1.0
    while value > power * 10:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= value or step == _STEPS[-1])


class _Scale:
    """From seconds and machines to places in the picture."""

    def __init__(self, far: float, high: float) -> None:
        self.far, self.high = far, high

    def x(self, seconds: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / self.far, 1)

    def y(self, machines: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * machines / self.high, 1)


def _axes(scale: _Scale) -> list[str]:
    drawn = []
    for tick in range(_TICKS + 1):
        seconds, machines = scale.far * tick / _TICKS, scale.high * tick / _TICKS
        x, y = scale.x(seconds), scale.y(machines)
        drawn += [
            f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#dddddd"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{machines:g}</text>',
            f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{seconds:g}</text>',
        ]
    return drawn


def _line(run: Run, scale: _Scale, number: int) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    places = " ".join(f"{scale.x(at)},{scale.y(up)}" for at, _, up in run.series)
    label = escape(f"{run.what}, {run.machines}")
    return (
        f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        f'<text x="{_WIDTH - _RIGHT - 120}" y="{_TOP + 16 * number}" fill="{colour}">{label}</text>'
    )
