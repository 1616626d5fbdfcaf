"""The picture, the tables, the world and the flags."""

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench import __main__ as command
from bench import chart, cloud, tables
from capvco.services.gpu_types import choose
from capvco.vco.models import GPUProfile
from tests.support.properties import always
from tests.unit.bench.test_figures import a_run
from vcosim.switches import Switches, changed
from vcosim.world import parsed

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_for_each_run() -> None:
    """Its places lie within the picture."""
    drawn = ET.fromstring(chart.svg([a_run(), a_run("capi", 9)]))
    lines = drawn.findall(f"{SVG}polyline")
    assert len(lines) == 2
    for place in lines[0].attrib["points"].split():
        x, y = map(float, place.split(","))
        assert 0 <= x <= 840
        assert 0 <= y <= 420
    assert [t.text for t in drawn.findall(f"{SVG}text")][-2:] == ["provider, 4", "capi, 9"]


@given(st.floats(min_value=0.001, max_value=1e9))
@always
def test_an_axis_ends_at_a_round_number(value: float) -> None:
    """At or above the largest value, and not far above it."""
    end = chart.nice(value)
    assert end >= value
    assert end <= max(1.0, value * 2.5)
    assert float(f"{end:.2g}") == pytest.approx(end)
    assert math.isfinite(end)


def test_tables_say_what_a_machine_costs() -> None:
    """Of each process, and in calls."""
    console = Console(width=200, record=True, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(*tables.tables(a_run()), sep="\n")
    text = capture.get()
    assert "250.00" in text  # ms of CPU a machine
    assert "5.00" in text  # Kubernetes writes a machine


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("provider 100 1000", {"provider": (100, 1000)}),
        ("idle capi 5", {"idle": (0, 10, 100), "capi": (5,)}),
        ("", {"provider": (100, 1000, 3000), "capi": (100, 300), "idle": (0, 10, 100)}),
    ],
)
def test_what_is_measured(words: str, expected: dict[str, tuple[int, ...]]) -> None:
    """Numbers belong to the benchmark before them; without any it is the usual ones."""
    assert command.chosen(words.split()) == expected


def test_the_world_has_room_and_is_a_world() -> None:
    """For each vGPU a machine asks for, and some to spare."""
    world = parsed(cloud.world(10, 4))
    cards = world.locations[0].cards
    assert 10 <= sum(card.capacity for card in cards) <= 10 + 5 * 4
    offered = tuple(
        GPUProfile(id=str(i), vendor=c.vendor, model=c.model, available_instances=c.capacity)
        for i, c in enumerate(cards)
    )
    assert choose(cloud.GPU_TYPE, offered, 1).others == ()


def test_the_switches_exist() -> None:
    """Each call that changes something takes its time."""
    given_ = cloud.switches(0.05)
    assert changed(Switches(), dict(given_)).attach_seconds == pytest.approx(0.05)


@pytest.mark.parametrize("arguments", [["nothing"], ["10"], ["provider", "ten"]])
def test_what_there_is_not_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err
