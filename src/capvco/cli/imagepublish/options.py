"""The flags of capvco-imagepublish, and which of them make sense together."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from capvco import settings
from capvco.cli.account import Account, flag
from capvco.cli.imagepublish.disk import GIB, Disk
from capvco.cli.secrets import named
from capvco.cli.unusable import Unusable
from capvco.vco.images import BootType

ALL = "all"
READY = "30m"
_WHAT = Group("What to publish", sort_key=1)
_NEEDS = Group("What machines of it need", sort_key=2)
_HOW = Group("How", sort_key=3)
_KUBERNETES = Group("Credentials from a Secret of Kubernetes", sort_key=4)
_OUTPUT = Group("Output", sort_key=6)
_MEMORY = {"Windows": 2048}
_LEAST_MEMORY = 512


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(Account):
    """Everything that can be said on the command line."""

    name: Annotated[str, flag(_WHAT, "Name that the image gets in every location.")]
    file: Annotated[Path, flag(_WHAT, "Disk image, qcow2 or raw.")]
    locations: Annotated[
        str, flag(_WHAT, "Where to: locations, separated by commas; or all of the customer's: all.")
    ]
    boot_type: Annotated[
        BootType,
        flag(
            _WHAT, "Firmware that machines of it boot by (default bios); theirs must be the same."
        ),
    ] = "bios"
    os_type: Annotated[
        str, flag(_WHAT, "Kind of operating system, as the platform names it (default Linux).")
    ] = ""
    os_name: Annotated[
        str, flag(_WHAT, 'Operating system, by the platform\'s list (default "Linux - other").')
    ] = ""

    memory: Annotated[
        int | None, flag(_NEEDS, "Least memory in MiB (default 512, for Windows 2048).")
    ] = None
    boot_disk_size: Annotated[
        int | None, flag(_NEEDS, "Smallest boot disk in GiB (default: the disk in the file).")
    ] = None

    allow_duplicate: Annotated[
        bool, flag(_HOW, "Publish even where an image of this name exists.")
    ] = False
    dry_run: Annotated[bool, flag(_HOW, "Check everything and say what would be done.")] = False
    parallel: Annotated[int, flag(_HOW, "Locations at once (default 4).")] = 4
    timeout: Annotated[
        str, flag(_HOW, f"Time limit for the import, from the end of the upload (default {READY}).")
    ] = READY
    state_dir: Annotated[
        Path | None,
        flag(_HOW, "Where unfinished uploads are noted (default: in $XDG_STATE_HOME)."),
    ] = None

    kubeconfig: Annotated[
        Path | None, flag(_KUBERNETES, "Kubeconfig (default: $KUBECONFIG, ~/.kube/config).")
    ] = None
    secret: Annotated[str, flag(_KUBERNETES, "The Secret, namespace/name.")] = ""

    output: Annotated[
        Literal["table", "json"], flag(_OUTPUT, "table, or json.", "--output", "-o")
    ] = "table"

    @property
    def named_locations(self) -> tuple[str, ...]:
        """The locations that are named; none means all."""
        names = tuple(name.strip() for name in self.locations.split(",") if name.strip())
        return () if names == (ALL,) else names

    @property
    def ready(self) -> float:
        """The time limit in seconds. Raises Unusable."""
        try:
            return settings.duration(self.timeout)
        except argparse.ArgumentTypeError as error:
            raise Unusable(f"--timeout: {error}") from error

    def least_memory(self, os_type: str) -> int:
        """Memory in MiB, for this kind of system unless given."""
        return _MEMORY.get(os_type, _LEAST_MEMORY) if self.memory is None else self.memory

    def smallest_disk(self, disk: Disk) -> int:
        """Boot disk in GiB. Raises Unusable for one that the image does not fit on."""
        least = disk.boot_disk_gib
        if self.boot_disk_size is not None and self.boot_disk_size < least:
            raise Unusable(
                f"--boot-disk-size {self.boot_disk_size} is too small: the disk in {self.file} has"
                f" {disk.virtual_size / GIB:.2f} GiB, so at least {least}"
            )
        return least if self.boot_disk_size is None else self.boot_disk_size


def check(options: Options) -> None:
    """Refuse what does not make sense. Raises Unusable."""
    if not options.name.strip() or not options.name.isprintable():
        raise Unusable("--name must be a text of one line, and not empty")
    if not options.named_locations and options.locations.strip() != ALL:
        raise Unusable("--locations names none; separate them by commas, or write: all")
    if ALL in options.named_locations:
        raise Unusable("--locations: give names or all, not both")
    if options.memory is not None and options.memory < 1:
        raise Unusable("--memory must be at least 1 (MiB)")
    if options.parallel < 1:
        raise Unusable("--parallel must be at least 1")
    if not 0 <= options.ready < math.inf:
        raise Unusable(f"--timeout must be a duration such as 30m, not {options.timeout}")
    _check_secret(options)


def _check_secret(options: Options) -> None:
    if options.secret and not named(options.secret):
        raise Unusable(f'--secret must be namespace/name, not "{options.secret}"')
    if options.secret and options.given.values:
        raise Unusable("--secret holds all credentials: no flags about credentials beside it")
    if options.kubeconfig is not None and not options.secret:
        raise Unusable("--kubeconfig only goes with --secret")
