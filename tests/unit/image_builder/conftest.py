from pathlib import Path

import pytest

from tests.unit.image_builder.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give a workbench with a base image."""
    return Bench(tmp_path / "bench")
