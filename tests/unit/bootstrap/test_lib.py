"""The functions that the node's scripts share, each called as on a node."""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import always

LIB = Path(__file__).parents[3] / "src/capvco/bootstrap/scripts/lib.sh"
Shell = Callable[..., "subprocess.CompletedProcess[str]"]


def in_root(root: Path, text: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run shell below a root, after the library, as a script of the name "part"."""
    for folder in ("run/capvco", "var/log", "var/lib/capvco", "dev", "etc/apt/sources.list.d"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    head = f"set -u; NAME=part; . {shlex.quote(str(LIB))}; read_settings; PAUSE=0\n"
    return subprocess.run(
        ["bash", "-c", head + text],
        env={"PATH": os.environ["PATH"], "CAPVCO_ROOT": str(root), **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return lambda text, **env: in_root(tmp_path, text, **env)


def test_settings_in_order(shell: Shell, tmp_path: Path) -> None:
    """Later files win, missing ones do not matter, and attempts and pauses have their own names."""
    (tmp_path / "a").write_text("X=1\nY=$X\n")
    (tmp_path / "b").write_text("X=2\nCAPVCO_PART_TRIES=7\n")
    said = shell('read_settings "$ROOT"/{a,none,b}; echo "$X $Y $TRIES $PAUSE"')
    assert said.stdout == "2 1 7 10\n"
    assert shell('read_settings; echo "$TRIES $PAUSE"').stdout == "5 10\n"


def test_a_line_for_people(shell: Shell, tmp_path: Path) -> None:
    """It is on the output, in the log with its time, and on the console."""
    (tmp_path / "dev/console").parent.mkdir()
    (tmp_path / "dev/console").touch()
    assert shell("say two words").stdout == "capvco: two words\n"
    assert (tmp_path / "dev/console").read_bytes() == b"capvco: two words\r\n"
    assert (tmp_path / "var/log/capvco-part.log").read_text().endswith("Z capvco: two words\n")


def test_without_a_console(shell: Shell) -> None:
    """A line is said all the same."""
    done = shell("say x")
    assert (done.stdout, done.stderr) == ("capvco: x\n", "")


def test_a_failure_ends_with_its_cause(shell: Shell, tmp_path: Path) -> None:
    """For programs a word, for people words; what follows does not run."""
    done = shell("STEP=here; fail Cause some words; echo not reached")
    assert (done.returncode, done.stdout) == (1, "capvco: ERROR: here: Cause: some words\n")
    assert (tmp_path / "run/capvco/part.failure").read_text() == "here Cause some words\n"


def test_quiet_commands(shell: Shell, tmp_path: Path) -> None:
    """Their output is in the log only, with the command, and their status is theirs."""
    done = shell("quietly sh -c 'cat; echo out; echo err >&2; exit 3'; echo $?")
    assert (done.stdout, done.stderr) == ("3\n", "")
    log = (tmp_path / "var/log/capvco-part.log").read_text()
    assert log.startswith("+ sh -c ")
    assert log.endswith("out\nerr\n")


def test_a_file_is_written_if_that_changes_it(shell: Shell, tmp_path: Path) -> None:
    """The answer says whether it did; a link and its target's rights stay what they are."""
    text = "printf a | install_file $ROOT/new/file && echo written || echo same"
    assert [shell(text).stdout for _ in range(2)] == ["written\n", "same\n"]
    target = tmp_path / "new/file"
    target.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    shell("printf b | install_file $ROOT/link")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("b", 0o600)
    assert [p.name for p in (tmp_path / "run/capvco").iterdir()] == []


@pytest.mark.parametrize(("good", "status", "said"), [(1, 0, 0), (3, 0, 2), (5, 0, 4), (6, 1, 4)])
def test_attempts_are_bounded(shell: Shell, good: int, status: int, said: int) -> None:
    """The last of five is the last, and each but that is told."""
    done = shell(f"n=0; try() {{ ((++n >= {good})); }}; retry it try; echo status $?")
    assert done.stdout.count("it failed (attempt ") == said
    assert f"status {status}\n" in done.stdout


def test_other_lists_of_a_repository(shell: Shell, tmp_path: Path) -> None:
    """They are put aside, our own and those of others stay, and it is said."""
    lists = tmp_path / "etc/apt/sources.list.d"
    lists.mkdir(parents=True)
    for name in ("ours.list", "theirs.list", "theirs.sources"):
        (lists / name).write_text("https://repo.example/deb\n")
    (lists / "other.list").write_text("https://archive.example\n")
    done = shell(r"retire_lists $ROOT/etc/apt/sources.list.d/ours.list 'repo\.example'")
    assert done.stdout.count("NOTE: ") == 2
    assert sorted(p.name for p in lists.iterdir()) == [
        "other.list",
        "ours.list",
        "theirs.list.disabled",
        "theirs.sources.disabled",
    ]


@pytest.mark.parametrize(
    ("before", "code", "said"),
    [
        ("printf verify >$AT", 0, "ok verify - |"),
        ("printf at >$AT", 124, "failed at TimedOut |not done after 9 s; the log says"),
        ("printf at >$AT", 137, "failed at TimedOut |not done after 9 s; the log says"),
        ("true", 2, "failed start Crashed |ended with status 2 and no word; the log may"),
        ("echo 'a Cause of  it' >$FAILURE", 1, "failed a Cause |of  it"),
        ("echo 'a Cause' >$FAILURE", 124, "failed a Cause |"),
    ],
)
def test_how_it_ended(shell: Shell, before: str, code: int, said: str) -> None:
    """What failed tells its cause; what told none is described by its status."""
    done = shell(f'{before}; judge {code} 9; echo "$RESULT |$WORDS"')
    assert done.stdout.startswith(said)


def test_the_result_is_kept_twice(shell: Shell, tmp_path: Path) -> None:
    """For this boot, and for the ones after it."""
    shell("keep_result 'ok verify - a=b'")
    for path in ("run/capvco/part.status", "var/lib/capvco/part.status"):
        assert (tmp_path / path).read_text() == "ok verify - a=b\n"


@always
@given(words=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40))
def test_any_word_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, words: str
) -> None:
    """Backslashes, quotes and patterns among them."""
    root = tmp_path_factory.mktemp("root")
    text = 'say "$WORD"; quietly printf "%s" "$WORD"'
    assert in_root(root, text, WORD=words).stdout == f"capvco: {words}\n"
    assert (root / "var/log/capvco-part.log").read_text().endswith(f"\n{words}")
