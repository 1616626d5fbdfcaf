"""Bodies of successful answers into structs: lenient about values, strict about shapes. Pure.

The API is loose about single values (numbers as text, null for absent) and so are we. But a list
without its key, a web page or half an answer is an error, never an empty list.
"""

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar

import msgspec

from capvco.vco.answers import Answer, is_html, not_json
from capvco.vco.call import Call

T = TypeVar("T")


def decode(call: Call, answer: Answer, answer_type: type[T]) -> T:
    """Decode an answer. Raises Malformed for a read, UnknownOutcome for a mutation."""
    if not answer.body:
        raise not_json(call, answer, "the answer is empty")
    try:
        found: T = _decoder(answer_type).decode(answer.body)  # type: ignore[arg-type] # a class has a hash
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Seldom: the answer is wrong, or has a null where it might as well have nothing.
        return _with_care(call, answer, answer_type)
    return found


@cache
def _decoder(answer_type: Hashable) -> msgspec.json.Decoder[Any]:
    # Typed loosely: what caches cannot say that one type goes in and the same comes out.
    return msgspec.json.Decoder(answer_type, strict=False)


def _with_care(call: Call, answer: Answer, answer_type: type[T]) -> T:
    try:
        value: object = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_json(call, answer, f"not JSON: {error}") from None
    try:
        return msgspec.convert(without_nulls(value), answer_type, strict=False)
    except msgspec.ValidationError as error:
        # The place and the expected type say enough; the content may be anybody's secret.
        raise not_json(
            call, msgspec.structs.replace(answer, body=b""), f"unexpected JSON: {error}"
        ) from None


def no_web_page(call: Call, answer: Answer) -> Answer:
    """Accept an answer that is not described, unless a proxy gave it."""
    if is_html(answer.body):
        raise not_json(call, answer, "a web page instead of an answer")
    return answer


def without_nulls(value: object) -> object:
    """Drop keys that hold null: the API means the same by null and by leaving a key out."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
