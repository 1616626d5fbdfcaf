"""The commands: ``capvco [flags]`` is the manager, ``capvco demo`` the demo."""

import asyncio
import sys

import uvloop

from capvco import settings
from capvco.main import run
from capvco.runtime import logs
from capvco.runtime.errors import Misconfigured


def main() -> None:
    """Run what the command line names."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["demo"]:
        # Its libraries are an extra of the package: imported only when asked for.
        from capvco.cli.demo import main as demo  # noqa: PLC0415

        demo(arguments[1:])
        return
    given = settings.parse(arguments)
    logs.configure(given.log_level)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(run(given))
    except Misconfigured as error:
        sys.exit(f"capvco: {error}")
    sys.exit(int(code))


if __name__ == "__main__":
    main()
