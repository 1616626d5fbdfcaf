"""The command line: flags in, report and exit code out."""

import asyncio
import os
import sys
from collections.abc import Sequence

from capvco.cli.commandline import parsed
from capvco.cli.imagepublish.codes import Code
from capvco.cli.imagepublish.connection import World, run
from capvco.cli.imagepublish.content import FileChanged
from capvco.cli.imagepublish.options import Options, check
from capvco.cli.imagepublish.screen import Screen
from capvco.cli.unusable import Unusable
from capvco.runtime import logs
from capvco.vco.errors import Unauthorized, VCOError

PROGRAM = "capvco-imagepublish"
_HELP = """Upload a disk image and register it in locations of a VCO cloud; prints the image's id
in each of them. Interrupted or failed, the same command goes on where it ended.

Flags may be written with one hyphen, too: -name X -file F -boot-type bios -locations all"""
_CODES = {
    Code.FINE: "every location has the image, ready for use",
    Code.FAILED: "some location has not got it; the same command goes on where this one ended",
    Code.USAGE: "flags, file or credentials cannot be used",
    Code.DUPLICATE: "an image of that name exists; nothing was uploaded there",
    Code.NOT_READY: "uploaded, but not usable within the time limit; the same command waits on",
    Code.IMPORT_FAILED: "the platform made no proper image of it; what it made was removed",
    Code.INTERRUPTED: "Ctrl-C; the same command goes on where this one ended",
}


def _epilogue() -> str:
    # Blank lines, since a paragraph is filled.
    lines = [f"{code.value:>3}  {text}" for code, text in _CODES.items()]
    return "\n\n".join(["Exit codes, the first that holds in the order 2, 1, 5, 4, 3:", *lines])


def _take(given: Options) -> Options:
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
    except FileChanged as error:
        return _failed(screen, error, Code.FAILED)
    except VCOError as error:
        refused = isinstance(error, Unauthorized)
        return _failed(screen, error, Code.USAGE if refused else Code.FAILED)
    except KeyboardInterrupt:
        screen.note("stopped; the same command goes on from here")
        return Code.INTERRUPTED
    screen.result(report)
    return report.exit_code


def _failed(screen: Screen, error: Exception, code: Code) -> Code:
    screen.note(f"{PROGRAM}: {error}")
    return code


def main() -> None:
    """Run the command."""
    logs.configure("error")
    screen = Screen(sys.stdout, sys.stderr)
    sys.exit(int(execute(sys.argv[1:], World(environment=os.environ), screen)))
