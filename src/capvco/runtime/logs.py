"""Logs as JSON lines, with what a reconcile bound to its context, and without secrets."""

import logging
import re
import sys
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

_SECRET_NAMES = re.compile(
    r"(^|_|-)(token|jwt|password|passwd|secret|authorization|kubeconfig|user_?data|private_key"
    r"|api_?key)$",
    re.IGNORECASE,
)
# A JWT, or what follows the word Bearer: also inside longer texts such as an error message.
_SECRET_TEXT = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?|(?<=bearer )[\w.~+/=-]{8,}", re.IGNORECASE
)
_REDACTED = "[redacted]"


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs of the process, those of libraries included, as JSON lines to a stream.

    Raises ValueError for an unknown level. Libraries speak from warnings on.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: debug, info, warning or error")
    beginning: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[Processor] = [
        structlog.processors.format_exc_info,
        redact,
        structlog.processors.JSONRenderer(serializer=_encode),
    ]
    out = stream or sys.stderr
    structlog.configure(
        processors=[*beginning, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    strip: Processor = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*beginning, structlog.stdlib.add_logger_name],
            processors=[strip, *ending],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def redact(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace secrets: whole values by their names, and tokens inside any text."""
    return {name: _clean(name, value) for name, value in event.items()}


def _clean(name: str, value: object) -> object:
    if value and _SECRET_NAMES.search(name):
        return _REDACTED
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _SECRET_TEXT.sub(_REDACTED, value)
        case dict():
            return {str(key): _clean(str(key), item) for key, item in value.items()}
        case list() | tuple():
            return [_clean(name, item) for item in value]
        case _:
            return _SECRET_TEXT.sub(_REDACTED, repr(value))


def _encode(event: EventDict, **_: object) -> str:
    return msgspec.json.encode(event).decode()
