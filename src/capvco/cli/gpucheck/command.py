"""The command line: flags in, report and exit code out."""

import asyncio
import os
import sys
from collections.abc import Sequence

from capvco.cli.commandline import parsed
from capvco.cli.gpucheck.codes import Code
from capvco.cli.gpucheck.connection import run
from capvco.cli.gpucheck.options import Options, check
from capvco.cli.gpucheck.screen import Screen
from capvco.cli.gpucheck.session import World
from capvco.cli.unusable import Unusable
from capvco.runtime import logs
from capvco.vco.errors import Unauthorized, VCOError

PROGRAM = "capvco-gpucheck"
_HELP = """What GPU types a location offers, and which reservations a customer holds and pays for.

Flags may be written with one hyphen, too: -location X -list -name-prefix capvco-"""
_CODES = {
    Code.FINE: "nothing needs a hand",
    Code.PLATFORM: "a location could not be asked, or answered oddly; what is shown is incomplete",
    Code.USAGE: "flags, credentials or kubeconfig cannot be used",
    Code.TYPE_UNAVAILABLE: "--type, --profile-id: cannot be had in the location(s) asked",
    Code.ORPHANS: "orphans are held (--list), or were too young to release (--no-wait)",
    Code.OWNER_UNKNOWN: "of some reservation the owner is unknown",
    Code.NOT_RELEASED: "--release: declined, refused, or not proven to be gone",
    Code.INTERRUPTED: "Ctrl-C",
}
_NOTHING = Options()


def _epilogue() -> str:
    # Blank lines, since a paragraph is filled.
    lines = [f"{code.value:>3}  {text}" for code, text in _CODES.items()]
    return "\n\n".join(["Exit codes, the first that holds in the order 2, 1, 6, 3, 4, 5:", *lines])


def _take(given: Options = _NOTHING) -> Options:
    return given


def _parsed(tokens: Sequence[str]) -> Options | None:
    """Read and check the flags; None if only help or version was asked for. Raises Unusable."""
    found = parsed(
        tokens,
        program=PROGRAM,
        about=_HELP,
        epilogue=_epilogue(),
        options=Options,
        take=_take,
    )
    if found is not None:
        check(found)
    return found


def execute(tokens: Sequence[str], world: World, screen: Screen) -> int:
    """Run with given flags and streams; returns the exit code."""
    try:
        options = _parsed(tokens)
        if options is None:
            return Code.FINE
        screen.show_as(options.output)
        report = asyncio.run(run(options, world, screen))
    except Unusable as error:
        return _failed(screen, error, Code.USAGE)
    except VCOError as error:
        refused = isinstance(error, Unauthorized)
        return _failed(screen, error, Code.USAGE if refused else Code.PLATFORM)
    except KeyboardInterrupt:
        screen.note("stopped; --list shows what is held")
        return Code.INTERRUPTED
    screen.result(report)
    return report.exit_code


def _failed(screen: Screen, error: Exception, code: Code) -> Code:
    screen.note(f"{PROGRAM}: {error}")
    return code


def main() -> None:
    """Run the command."""
    logs.configure("error")
    screen = Screen(sys.stdout, sys.stderr, sys.stdin)
    sys.exit(int(execute(sys.argv[1:], World(environment=os.environ), screen)))
