"""What a handler hands back: an answer, or a refusal in the platform's words."""

import msgspec


class Reply(msgspec.Struct, frozen=True):
    """An answer: what was done, and when the work behind it ends."""

    body: object = None
    status: int = 200
    until: float = 0.0
    """With blocking replies the answer waits for this moment (seconds since the epoch)."""
    headers: dict[str, str] = {}
    settled: bool = True
    """False where the description has no schema and the body is a switch's choice."""


class RefusedError(Exception):
    """The platform says no: a status and a message."""

    def __init__(self, status: int, message: str, errors: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def body(self) -> dict[str, object]:
        """Return the body, shaped as the platform's framework shapes it."""
        if self.errors is None:
            return {"message": self.message}
        return {"errors": self.errors, "message": self.message}


def done(until: float = 0.0) -> Reply:
    """Answer ``{"success": true}`` when the work is done."""
    return Reply({"success": True}, until=until)


def unspecified(until: float = 0.0) -> Reply:
    """Answer where the description gives no schema."""
    return Reply(None, until=until, settled=False)


def not_found(what: str) -> RefusedError:
    """Refuse because something does not exist."""
    return RefusedError(404, f"{what} not found")


def bad(message: str) -> RefusedError:
    """Refuse because the request makes no sense here."""
    return RefusedError(400, message)


def conflict(message: str) -> RefusedError:
    """Refuse because of the state of things."""
    return RefusedError(409, message)
