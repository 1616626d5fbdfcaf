"""What a run did, as it is written with ``-o json``: docs/imagepublish.md documents each field."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from capvco.cli.imagepublish.codes import Code, first


class Outcome(StrEnum):
    """What became of a location."""

    PUBLISHED = "published"
    """The image is there and usable."""
    PRESENT = "present"
    """An earlier run published this file under this name there, and it still is there."""
    PLANNED = "planned"
    """With ``--dry-run``: it would be published."""
    DUPLICATE = "duplicate"
    """An image of that name exists, so nothing was uploaded."""
    NOT_READY = "not-ready"
    """Uploaded, but not usable within the time limit."""
    IMPORT_FAILED = "import-failed"
    """The platform made no proper image of it."""
    FAILED = "failed"
    """It did not get there."""


_CODES: Mapping[Outcome, Code] = {
    Outcome.PUBLISHED: Code.FINE,
    Outcome.PRESENT: Code.FINE,
    Outcome.PLANNED: Code.FINE,
    Outcome.DUPLICATE: Code.DUPLICATE,
    Outcome.NOT_READY: Code.NOT_READY,
    Outcome.IMPORT_FAILED: Code.IMPORT_FAILED,
    Outcome.FAILED: Code.FAILED,
}


class Result(Struct, frozen=True, rename="camel", kw_only=True):
    """What became of one location."""

    location: str
    outcome: Outcome
    image_id: int | None = None
    """What goes into ``spec.imageID`` of machines in this location."""
    status: str = ""
    """The platform's word for the image's state."""
    detail: str = ""


class Report(Struct, frozen=True, rename="camel", kw_only=True):
    """What a run did."""

    customer: str
    name: str
    file: str
    format: str
    size: int
    virtual_size: int
    md5: str
    boot_type: str
    os_type: str
    os_name: str
    memory_mib: int = field(name="memoryMiB")
    boot_disk_gib: int = field(name="bootDiskGiB")
    dry_run: bool = False
    results: tuple[Result, ...] = ()
    exit_code: int = 0

    @property
    def code(self) -> Code:
        """How the run ends."""
        return first(*(_CODES[result.outcome] for result in self.results))
