"""The reference pages are those that the types and roles give."""

from pathlib import Path

import pytest

from capvco.release.reference import main, pages

COMMITTED = Path(__file__).parents[3] / "docs" / "reference"


def test_committed_pages_are_current() -> None:
    """Run ``make reference`` after a change of types or roles."""
    assert main(["--check", str(COMMITTED)]) == 0


def test_a_stale_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed page and a missing one both fail the check, which writes nothing."""
    main([str(tmp_path)])
    (tmp_path / "api.md").write_text("old")
    (tmp_path / "rights.md").unlink()
    assert main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "api.md is not what the types and roles say: run make reference" in said
    assert "rights.md is not" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["api.md", "conditions.md"]


def test_api_page_explains_fields_and_refusals() -> None:
    """Limits, defaults, documentation and the sentences of rules are on the page."""
    page = pages()["api.md"]
    assert "| `spec.gpu.count` | integer, 1 to 16, default `1` | How many vGPUs" in page
    assert "- set exactly one of gpu.type" in page
    assert "- the spec of a VCOMachineTemplate cannot be changed" in page
    assert "<namespace>" not in page


def test_command_writes_all_pages(tmp_path: Path) -> None:
    """It makes the folder and writes each page."""
    assert main([str(tmp_path / "reference")]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "reference").iterdir()}
    assert written == pages()
