"""The reference pages are those that the types and roles give."""

from pathlib import Path

import pytest

from capvco.release.reference import main, pages

COMMITTED = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(pages()))
def test_committed_page_is_current(name: str) -> None:
    """Run ``python -m capvco.release.reference`` after a change of types or roles."""
    assert (COMMITTED / name).read_text(encoding="utf-8") == pages()[name]


def test_api_page_explains_fields_and_refusals() -> None:
    """Limits, defaults, documentation and the sentences of rules are on the page."""
    page = pages()["api.md"]
    assert "| `spec.gpu.count` | integer, 1 to 16, default `1` | How many vGPUs" in page
    assert "- set exactly one of gpu.type" in page
    assert "- the spec of a VCOMachineTemplate cannot be changed" in page
    assert "<namespace>" not in page


def test_command_writes_all_pages(tmp_path: Path) -> None:
    """It makes the folder and writes each page."""
    assert main(["--output", str(tmp_path / "reference")]) == 0
    written = {path.name: path.read_text() for path in (tmp_path / "reference").iterdir()}
    assert written == pages()
