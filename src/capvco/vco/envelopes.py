"""What the API wraps its answers in, and the base of all models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

T = TypeVar("T")
Loose = int | float | str | None
"""A value that is a number in one place, text in another, and null in a third."""

if TYPE_CHECKING:
    Text = str
else:
    # What arrives; `Model.__post_init__` makes text of it, so that nobody else sees anything else.
    Text = str | int | float | tuple[str, ...]


class Model(Struct, frozen=True, kw_only=True):
    """Base of all models."""

    texts: ClassVar[tuple[str, ...]] = ()
    """Fields that are text, however they come: as text, as a number, or as a list of texts."""

    def __post_init__(self) -> None:
        """Make text of the fields that are to be text."""
        for name in self.texts:
            if not isinstance(value := getattr(self, name), str):
                force_setattr(self, name, as_text(value))


class Result(Model, Generic[T], frozen=True):
    """Envelope of a plain list."""

    result: tuple[T, ...]


class Health(Model, frozen=True):
    """Whether a location answered, in a list that asks several."""

    location: str
    status: str

    @property
    def ok(self) -> bool:
        """Whether the location's part of the list is there."""
        return self.status.upper() == "OK"


class FanOut(Model, Generic[T], frozen=True):
    """Envelope of what is gathered from several locations."""

    locations: tuple[Health, ...]
    result: T

    def failed(self, asked: Sequence[str] | None = None) -> tuple[str, ...]:
        """Name the locations that said nothing, of those that were asked for.

        A location that was asked for by name and is not reported on said nothing, too.
        """
        if asked is None:
            return tuple(sorted(h.location for h in self.locations if not h.ok))
        good = {h.location for h in self.locations if h.ok}
        return tuple(sorted(set(asked) - good))


def is_set(time: Loose) -> bool:
    """Whether a time is given: the API writes none as 0, as "0" and as nothing."""
    return time is not None and str(time).strip() not in ("", "0", "0.0")


def as_text(value: object) -> str:
    """Make text of text, of a number, and of a list of texts."""
    return ",".join(value) if isinstance(value, tuple) else str(value)
