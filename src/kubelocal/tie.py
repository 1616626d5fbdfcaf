"""Run a program so that it dies with us: the arguments that put `launch.py` in between."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAUNCH: Final = Path(__file__).with_name("launch.py")


def launched(
    command: Sequence[str], *, record: Path | None = None, tie: bool = True, watch: bool = False
) -> list[str]:
    """Give what to run instead of `command`, whose first word is a full path.

    With `tie` it dies when the calling *thread* ends; it writes who it is to `record`; with `watch`
    a small process stays in between and takes its children along (needs a session of its own).
    """
    how = {
        "parent": os.getpid(),
        "record": str(record) if record else "",
        "tie": tie,
        "watch": watch,
    }
    return [sys.executable, "-I", "-S", str(_LAUNCH), json.dumps(how), *command]
