"""The documentation names what there is."""

from pathlib import Path
from typing import get_args

import msgspec

from vcosim import faults
from vcosim.control_api import ControlApi
from vcosim.switches import HELP, Switches

PAGE = (Path(__file__).parents[3] / "docs" / "vcosim.md").read_text(encoding="utf-8")


def test_every_switch_is_in_the_table_with_its_default_and_help() -> None:
    """One row each, word for word."""
    for name, default in msgspec.structs.asdict(Switches()).items():
        assert f"| `{name}` | `{default}` | {HELP[name]} |" in PAGE


def test_every_control_path_is_documented() -> None:
    """Method and path of each."""
    for method, path in ControlApi.ROUTES:
        assert f"| `{method} {path}` |" in PAGE


def test_every_kind_of_fault_is_documented() -> None:
    """By its name."""
    assert all(f"| `{kind}` |" in PAGE for kind in get_args(faults.Kind))
