"""What is kept between runs, and what a run makes of it."""

import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from capvco.cli.imagepublish.publisher import decided
from capvco.cli.imagepublish.state import NOTHING, Busy, Slot, State, States, folder
from capvco.cli.unusable import Unusable

BEGUN = State(upload_id="u", object_name="o", part_size=5, parts={1: "a", 12: "b"})
ENDING = State(upload_id="u", object_name="o", part_size=5, parts={1: "a"}, before=(7,))
DONE = State(image_id=8, before=(7,), done=True)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """And forgotten on demand."""
    slot = Slot(tmp_path / "s.json")
    assert slot.load() == NOTHING
    for state in (BEGUN, ENDING, DONE):
        assert slot.save(state) == state
        assert slot.load() == state
    assert slot.clear() == slot.load() == NOTHING
    slot.clear()


@pytest.mark.parametrize("content", [b"", b"{", b'{"parts": 5}', b"[]"])
def test_what_cannot_be_read_counts_as_nothing(tmp_path: Path, content: bytes) -> None:
    """After a power cut the file may be anything; a new upload does no harm."""
    (tmp_path / "s.json").write_bytes(content)
    assert Slot(tmp_path / "s.json").load() == NOTHING


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """For the same file, name and place; others are free."""
    states = States(tmp_path / "deep" / "folder")
    with states.slot("api", "be", "name") as slot, states.slot("api", "nl", "name") as other:
        slot.save(BEGUN)
        assert other.load() == NOTHING
        with (
            pytest.raises(Busy, match="another run"),
            states.slot("api", "be", "name"),
        ):
            pytest.fail("both have it")
    with states.slot("api", "be", "name") as slot:
        assert slot.load() == BEGUN
    assert stat.S_IMODE((tmp_path / "deep" / "folder").stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """With the flag that chooses another."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(Unusable, match="--state-dir"),
        States(tmp_path / "file" / "states").slot("a"),
    ):
        pytest.fail("there is no folder")


def test_where_states_are(tmp_path: Path) -> None:
    """As chosen, else by XDG; a relative XDG path is to be ignored."""
    assert folder({"XDG_STATE_HOME": "/x"}, tmp_path) == tmp_path
    assert folder({"XDG_STATE_HOME": "/x"}, None) == Path("/x/capvco/imagepublish")
    home = Path.home() / ".local" / "state" / "capvco" / "imagepublish"
    assert folder({"XDG_STATE_HOME": "x"}, None) == folder({}, None) == home


@pytest.mark.parametrize(
    ("state", "named", "again", "expected"),
    [
        (NOTHING, [7], False, NOTHING),
        (BEGUN, [], False, BEGUN),
        (BEGUN, [7], False, BEGUN),
        (ENDING, [7], False, ENDING),
        (ENDING, [7, 9], False, replace(ENDING, image_id=9)),
        (ENDING, [7, 9, 10], False, ENDING),
        (DONE, [7, 8], False, DONE),
        (DONE, [7], False, NOTHING),
        (DONE, [7, 8], True, NOTHING),
        (State(image_id=8, before=()), [8], True, State(image_id=8, before=())),
    ],
)
def test_where_to_go_on(state: State, named: list[int], again: bool, expected: State) -> None:
    """An image that appeared since the end was sent is ours; one that went is to be made anew."""
    assert decided(state, named, allow_duplicate=again) == expected
