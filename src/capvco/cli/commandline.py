"""The command line of a tool: its help, and its flags as one frozen value."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TypeVar

from cyclopts import App, CycloptsError, Parameter

from capvco.cli.spelling import spelled
from capvco.cli.unusable import Unusable

T = TypeVar("T")


def parsed(  # noqa: PLR0913 - what a command line consists of, by name only
    tokens: Sequence[str],
    *,
    program: str,
    about: str,
    epilogue: str,
    options: type[T],
    take: Callable[..., T],
) -> T | None:
    """Read the flags; None if only help or version was asked for. Raises Unusable.

    ``take`` is a function of the options, whose annotation says what flags there are.
    """
    app = App(
        name=program,
        help=about,
        help_format="plaintext",
        help_epilogue=epilogue,
        version=version("capvco"),
        default_parameter=Parameter(negative=""),
    )
    app.default(take)
    try:
        found = app(
            spelled(tokens, options),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        raise Unusable(f"{error} See {program} --help.") from error
    return found if isinstance(found, options) else None
