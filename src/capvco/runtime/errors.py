"""What can go wrong between this process and the apiserver.

    KubeError                 any answer that is not a success
    ├── NotFound              404: the object, or its namespace, does not exist
    │   └── Gone              the very object that was meant (by uid) is deleted
    ├── Conflict              409: somebody else wrote in between
    │   └── AlreadyExists     a create met an object of that name
    ├── Expired               410, or 504 "Too large resource version": list again
    ├── Forbidden             401, 403: the credentials or their RBAC do not allow it
    ├── Invalid               400, 422: the apiserver refuses the object
    ├── Throttled             429: ``retry_after`` says when to come back
    ├── Undecodable           the answer is not what its kind should look like
    └── Unreachable           no answer at all: it is unknown whether a write has happened

Every error has ``retry_after``: seconds when the apiserver asked for a pause, else None.
"""

import msgspec


class KubeError(Exception):
    """An answer of the apiserver that is not a success."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class NotFound(KubeError):  # noqa: N818 - reads as the outcome it is
    """The object, or the namespace it should be in, does not exist."""


class Gone(NotFound):
    """The object that was meant, by its uid, is deleted; another may have its name."""


class Conflict(KubeError):  # noqa: N818 - reads as the outcome it is
    """Somebody else wrote in between."""


class AlreadyExists(Conflict):
    """A create met an object of that name."""


class Expired(KubeError):  # noqa: N818 - reads as the outcome it is
    """The version asked for is too old or too new for this apiserver: list again."""


class Forbidden(KubeError):  # noqa: N818 - reads as the outcome it is
    """The credentials are not accepted, or RBAC does not allow the request."""


class Invalid(KubeError):  # noqa: N818 - reads as the outcome it is
    """The apiserver refuses the object as it is."""


class Throttled(KubeError):  # noqa: N818 - reads as the outcome it is
    """The apiserver asks to come back later."""


class Undecodable(KubeError):  # noqa: N818 - reads as the outcome it is
    """The answer does not look like its kind."""


class Unreachable(KubeError):  # noqa: N818 - reads as the outcome it is
    """No answer: whether a write has happened is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class Misconfigured(Exception):  # noqa: N818 - reads as the outcome it is
    """There is no usable configuration to reach an apiserver with."""


class _Status(msgspec.Struct, frozen=True):
    """The part of a metav1.Status that is read."""

    code: int = 0
    reason: str = ""
    message: str = ""


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Throttled,
}
_TOO_LARGE = "Too large resource version"
_EXCERPT = 300


def error_of(
    status: int, body: bytes, *, where: str, retry_after: float | None = None
) -> KubeError:
    """Return the error that an answer means; the body is a Status, or whatever a proxy sent.

    In a watch the HTTP status is 200 and the code is in the Status alone: pass 0 for it.
    """
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Status(message=body[:_EXCERPT].decode(errors="replace").strip())
    code = status or said.code
    kind = _BY_STATUS.get(code, KubeError)
    if said.reason == "AlreadyExists":
        kind = AlreadyExists
    elif _TOO_LARGE in said.message:
        kind = Expired
    message = f"{where}: {said.message or 'no message'} ({code})"
    return kind(code, said.reason, message, retry_after=retry_after)
