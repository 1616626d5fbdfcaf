"""`python -m kubelocal` and the entry point `kubelocal`."""

from __future__ import annotations

import sys

from kubelocal.cli import run


def main() -> None:
    """Run the command and end with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
