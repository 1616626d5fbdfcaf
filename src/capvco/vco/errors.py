"""What can go wrong between us and a VCO cloud, by what it means to the caller.

    VCOError
    ├── Refused              the platform said no (4xx as JSON): nothing happened
    │   ├── NotFound         404: the platform says there is no such thing
    │   ├── Conflict         409: a name taken, an object busy or in the wrong state
    │   └── NoCapacity       asked for something that is used up; worth asking again later
    ├── CredentialsRefused   nothing happened; curable in the Secret or the portal alone
    │   ├── Unauthorized     401, after the token was renewed and the Secret read again
    │   └── Forbidden        403
    ├── Throttled            429, or our own limiter during such a pause: nothing happened
    ├── Unreachable          nothing was sent, or a read was not answered properly
    ├── UnknownOutcome       a mutation without a proper answer: perhaps it happened
    ├── Malformed            a read was answered by something that is not what is described
    │   └── Inconsistent     the pages of a list contradict each other, again and again
    └── PartialList          some locations did not answer: what is missing may well exist

Every error but UnknownOutcome says that a mutation did not happen (`nothing_happened`); after
UnknownOutcome the caller looks for what it may have made. Refused is about the request itself: the
same one will be refused again, so it may be final. Credentials are apart, because with others the
same request succeeds. NotFound is the platform's word for the *path*: a missing cloudspace or
customer answers 404 for everything below it, too.

Messages carry the method, the route template, the status and the platform's own words; never a
token, never user data.
"""

from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


class VCOError(Exception):
    """Any failure of a call to a VCO cloud.

    `words` are the platform's (or the transport's) own, shortened; `status` is None when there was
    no answer; `retry_after` is in seconds, where somebody named a time.
    """

    meaning: ClassVar[str] = "the call failed"
    nothing_happened: ClassVar[bool] = False

    def __init__(
        self,
        method: str,
        route: str,
        status: int | None,
        words: str,
        *,
        retry_after: float | None = None,
    ) -> None:
        self.method = method
        self.route = route
        self.status = status
        self.words = words
        self.retry_after = retry_after
        super().__init__(self._sentence())

    def again(self) -> "VCOError":
        """Return a fresh error that says the same, to be raised another time."""
        kind = type(self)
        return kind(self.method, self.route, self.status, self.words, retry_after=self.retry_after)

    def _sentence(self) -> str:
        outcome = "failed" if self.status is None else f"was answered {self.status}"
        wait = "" if self.retry_after is None else f"; try again in {self.retry_after:g} s"
        return f"{self.method} {self.route} {outcome}: {self.words} ({self.meaning}{wait})"


class Refused(VCOError):
    """The platform understood the request and said no: nothing happened."""

    meaning = "the platform refused, nothing happened; the same request will be refused again"
    nothing_happened = True


class NotFound(Refused):
    """The platform itself says that there is no such thing (404 as JSON)."""

    meaning = "the platform says that this, or something on the way to it, does not exist"


class Conflict(Refused):
    """The request contradicts what exists: a name taken, an object busy or in another state."""

    meaning = "nothing happened: a name is taken, or the object is busy or in another state"


class NoCapacity(Refused):
    """What was asked for is used up at the moment."""

    meaning = "nothing happened: the location has none free; ask again later or for another kind"


class CredentialsRefused(VCOError):
    """The credentials do not allow this: somebody has to change the Secret or the rights."""

    meaning = "nothing happened: the credentials do not allow it"
    nothing_happened = True


class Unauthorized(CredentialsRefused):
    """The token is not accepted, after it was renewed and the Secret was read again."""

    meaning = "nothing happened: the token is not accepted; put valid credentials into the Secret"


class Forbidden(CredentialsRefused):
    """The token is accepted, but lacks the right or the scope for this."""

    meaning = (
        "nothing happened: the credentials lack a right; grant it to the account in the portal"
    )


class Throttled(VCOError):
    """Too many requests: nothing happened, `retry_after` says for how long to leave it."""

    meaning = "too many requests, nothing happened"
    nothing_happened = True


class Unreachable(VCOError):
    """Nothing was sent, or a read was not answered by the API: nothing was learnt or changed."""

    meaning = "the API was not reached; nothing was changed or learnt"
    nothing_happened = True


class UnknownOutcome(VCOError):
    """A mutation that was sent and not answered properly: look before doing it again."""

    meaning = "it may have happened; look before repeating it"


class Malformed(VCOError):
    """A read was answered by something other than what the API describes: nothing was learnt."""

    meaning = "the answer is not what the API describes, so nothing was learnt from it"
    nothing_happened = True


class Inconsistent(Malformed):
    """The pages of one list contradict each other, also when read again."""

    meaning = "the list kept changing while it was read; read it again later"


class PartialList(VCOError, Generic[T]):
    """Some locations did not answer: what is missing in `readable` may well exist.

    `readable` holds what the other locations said, `failed` names those that said nothing.
    """

    meaning = "the list is incomplete: what is missing from it may well exist"
    nothing_happened = True

    def __init__(self, method: str, route: str, *, readable: T, failed: tuple[str, ...]) -> None:
        self.readable = readable
        self.failed = failed
        super().__init__(method, route, 200, f"no word from location {', '.join(failed)}")
