"""What can go wrong, each with the exit code the command ends with.

KubelocalError            1   anything below
├── UsageError            2   an option or a call that cannot be served
├── NeedsGo               3   nothing but a build is left, and Go is missing or too old
├── BuildFailed           4   `go` said no
├── DownloadFailed        5   an archive could not be had whole and verified
├── DirectoryInUse        6   another process owns this state directory
├── StartFailed           7   a process ended or did not become ready
└── CommandFailed         8   kubectl or clusterctl ended with an error
    ├── KubectlError
    └── ClusterctlError
"""

from __future__ import annotations

from typing import ClassVar


class KubelocalError(Exception):
    """The root: what, where, what to do, in one text for a person."""

    exit_code: ClassVar[int] = 1


class UsageError(KubelocalError):
    """An option or a call that cannot be served as it stands."""

    exit_code = 2


class NeedsGo(KubelocalError):  # noqa: N818 - the word says what is needed; "Error" adds nothing
    """A build is the only way left, and Go is missing or too old."""

    exit_code = 3


class BuildFailed(KubelocalError):  # noqa: N818 - reads as what happened
    """`go build`, `go mod download` or a rendering ended with an error."""

    exit_code = 4


class DownloadFailed(KubelocalError):  # noqa: N818 - reads as what happened
    """An official archive could not be fetched whole and verified."""

    exit_code = 5


class DirectoryInUse(KubelocalError):  # noqa: N818 - reads as what happened
    """Another living process owns this state directory."""

    exit_code = 6


class StartFailed(KubelocalError):  # noqa: N818 - reads as what happened
    """A process of the cluster ended early or did not become ready in time."""

    exit_code = 7


class CommandFailed(KubelocalError):  # noqa: N818 - reads as what happened
    """A command run against the cluster ended with an error; carries its output."""

    exit_code = 8

    def __init__(self, command: tuple[str, ...], code: int, stdout: str, stderr: str) -> None:
        said = stderr.strip() or stdout.strip() or "it printed nothing"
        super().__init__(f"`{' '.join(command)}` ended with exit code {code}: {said}")
        self.command = command
        self.code = code
        self.stdout = stdout
        self.stderr = stderr


class KubectlError(CommandFailed):
    """kubectl ended with an error."""


class ClusterctlError(CommandFailed):
    """clusterctl ended with an error."""
