"""Which flags make sense, and what they default to."""

from pathlib import Path
from typing import Any

import pytest

from capvco.cli.imagepublish.disk import GIB, Disk, Format
from capvco.cli.imagepublish.options import Options, check
from capvco.cli.imagepublish.systems import NAMES, system
from capvco.cli.spelling import spelled
from capvco.cli.unusable import Unusable
from tests.support.vendor import description

DISK = Disk(format=Format.QCOW2, virtual_size=5 * GIB // 2)


def options(**changes: Any) -> Options:  # noqa: ANN401 - any flag
    values: dict[str, Any] = {"name": "n", "file": Path("f"), "locations": "be, nl,"}
    return Options(**(values | changes))


def test_the_product_page_s_spelling() -> None:
    """One hyphen, and two."""
    tokens = ["-name", "n", "-file=f", "-boot-type", "bios", "-locations", "all", "-o", "json"]
    assert spelled(tokens, Options) == [
        *("--name", "n", "--file=f", "--boot-type", "bios", "--locations", "all", "-o", "json"),
    ]


def test_locations() -> None:
    """A list by comma, or all."""
    assert options().named_locations == ("be", "nl")
    assert options(locations=" all ").named_locations == ()
    check(options())
    check(options(locations="all"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": " "}, "--name"),
        ({"name": "two\nlines"}, "--name"),
        ({"locations": " , "}, "--locations names none"),
        ({"locations": "be,all"}, "not both"),
        ({"memory": 0}, "--memory"),
        ({"parallel": 0}, "--parallel"),
        ({"timeout": "soon"}, "--timeout"),
        ({"timeout": "-1"}, "--timeout"),
        ({"timeout": "nan"}, "--timeout"),
        ({"secret": "vco"}, "namespace/name"),
        ({"secret": "a/b", "jwt": "x"}, "--secret"),
        ({"kubeconfig": Path("k")}, "--kubeconfig"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(Unusable, match=said):
        check(options(**changes))


def test_needs_come_from_the_file_and_the_system() -> None:
    """Unless they are given."""
    assert options().smallest_disk(DISK) == 3
    assert options(boot_disk_size=20).smallest_disk(DISK) == 20
    assert options().least_memory("Linux") == 512
    assert options().least_memory("Windows") == 2048
    assert options(memory=64).least_memory("Windows") == 64
    assert options(timeout="1h").ready == 3600


def test_a_boot_disk_that_the_image_does_not_fit_on_is_refused() -> None:
    """With both sizes."""
    with pytest.raises(Unusable, match=r"2\.50 GiB, so at least 3"):
        options(boot_disk_size=2).smallest_disk(DISK)


def test_systems_are_the_platform_s_own() -> None:
    """All types and names of its description, and no others."""
    path = "/customers/{customer_id}/locations/{location}/vm-images/{upload_id}/finish-image-upload"
    described = {p["name"]: p for p in description()["paths"][path]["post"]["parameters"]}
    assert set(NAMES) == set(described["os_type"]["enum"])
    names = [name for names in NAMES.values() for name in names]
    assert sorted(names) == sorted(described["os_name"]["enum"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (("", ""), ("Linux", "Linux - other")),
        (("windows", ""), ("Windows", "Windows - other")),
        (("", "ubuntu 20.04"), ("Linux", "Ubuntu 20.04")),
        (("", "Free bsd 13"), ("BSD", "Free bsd 13")),
        (("Other", "other"), ("Other", "other")),
    ],
)
def test_a_type_gives_a_name_and_a_name_its_type(
    given: tuple[str, str], found: tuple[str, str]
) -> None:
    """In any case."""
    assert system(*given) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("Plan 9", ""), r'--os-type "Plan 9".*possible: Linux, Windows'),
        (("", "Ubuntu 24.04"), r'--os-name "Ubuntu 24.04".*Ubuntu 20.04'),
        (("Windows", "Debian 10"), r'--os-name "Debian 10".*possible: Windows - other'),
    ],
)
def test_unknown_systems_are_listed_with_what_is_possible(
    given: tuple[str, str], said: str
) -> None:
    """The platform takes nothing else."""
    with pytest.raises(Unusable, match=said):
        system(*given)
