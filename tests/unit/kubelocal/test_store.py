"""The cache holds whole entries or none, whatever happens while one is made."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kubelocal.store import Store, default_root
from tests.unit.kubelocal.support import python, until

MAKER = """
import sys, time
from pathlib import Path
from kubelocal.store import Store
store, log = Store(Path(sys.argv[1])), Path(sys.argv[2])
with store.locked("key", lambda: print("waiting", flush=True)):
    if store.get("key") is None:
        with store.making("key", {}) as folder:
            (folder / "tool").write_text("half")
            with log.open("a") as file:
                file.write("made\\n")
            print("making", flush=True)
            while not Path(sys.argv[3]).exists():
                time.sleep(0.01)
            (folder / "tool").write_text("whole")
print(store.get("key").path.joinpath("tool").read_text(), flush=True)
"""


def left(store: Store) -> list[Path]:
    """Everything in the store that is not a lock."""
    return [p for p in store.root.rglob("*") if p.is_file() and p.parent.name != "locks"]


def test_an_entry_appears_when_its_block_ends(tmp_path: Path) -> None:
    """It has what was put there and its facts."""
    store = Store(tmp_path)
    with store.locked("key"), store.making("key", {"version": "v1"}) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "tool").write_text("text")
        assert store.get("key") is None
    entry = store.get("key")
    assert entry is not None
    assert (entry.path / "sub" / "tool").read_text() == "text"
    assert entry.facts == {"version": "v1"}
    assert [found.key for found in store.matching("k")] == ["key"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_or_interrupted_making_leaves_nothing(
    tmp_path: Path, error: BaseException
) -> None:
    """No entry, and no half one either."""
    store = Store(tmp_path)

    def make() -> None:
        with store.locked("key"), store.making("key", {}) as folder:
            (folder / "tool").write_text("half")
            raise error

    with pytest.raises(type(error)):
        make()
    assert store.get("key") is None
    assert left(store) == []


def test_a_killed_maker_leaves_no_entry_and_the_next_one_removes_its_rest(tmp_path: Path) -> None:
    """SIGKILL gives no chance to clean up; the lock is free and the rest is recognised."""
    store, go = Store(tmp_path / "store"), tmp_path / "go"
    killed = python(MAKER, str(store.root), str(tmp_path / "log"), str(go))
    assert killed.stdout is not None
    assert killed.stdout.readline() == "making\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert store.get("key") is None
    assert len(left(store)) == 1
    go.touch()
    output, _ = python(MAKER, str(store.root), str(tmp_path / "log"), str(go)).communicate()
    assert output == "making\nwhole\n"
    assert sorted(path.name for path in left(store)) == ["entry.json", "tool"]


def test_two_processes_make_an_entry_once(tmp_path: Path) -> None:
    """The second waits, says so, and uses what the first has made."""
    root, log, go = str(tmp_path / "store"), tmp_path / "log", tmp_path / "go"
    first = python(MAKER, root, str(log), str(go))
    assert first.stdout is not None
    assert first.stdout.readline() == "making\n"
    second = python(MAKER, root, str(log), str(go))
    assert second.stdout is not None
    assert second.stdout.readline() == "waiting\n"
    go.touch()
    assert first.communicate()[0] == "whole\n"
    assert second.communicate()[0] == "whole\n"
    assert log.read_text() == "made\n"


def test_a_file_cut_short_later_makes_the_entry_absent(tmp_path: Path) -> None:
    """It is then made anew."""
    store = Store(tmp_path)
    for text in ("0123456789", "0123456789"):
        with store.locked("key"), store.making("key", {}) as folder:
            (folder / "tool").write_text(text)
        entry = store.get("key")
        assert entry is not None
        (entry.path / "tool").write_text("01234")
        assert store.get("key") is None


def test_clean_removes_entries_and_what_dead_makers_left(tmp_path: Path) -> None:
    """And waits for a living maker to be done."""
    store = Store(tmp_path)
    with store.locked("key"), store.making("key", {}) as folder:
        (folder / "tool").write_text("text")
    (tmp_path / "scratch" / "other.abc").mkdir()
    store.clean()
    until(lambda: left(store) == [])
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_cache_is_where_the_environment_says() -> None:
    """KUBELOCAL_CACHE before XDG_CACHE_HOME before the home directory."""
    both = {"KUBELOCAL_CACHE": "/a", "XDG_CACHE_HOME": "/b"}
    assert default_root(both) == Path("/a")
    assert default_root({"XDG_CACHE_HOME": "/b"}) == Path("/b/kubelocal")
    assert default_root({}) == Path.home() / ".cache" / "kubelocal"
