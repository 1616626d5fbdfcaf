"""The command line: what is refused, and in which words."""

import pytest

from tests.unit.image_builder.bench import Bench


def test_help(bench: Bench) -> None:
    """Every option is listed, without any tool at hand."""
    bench.without("guestfish")
    run = bench.run("--help")
    assert run.code == 0
    for option in (
        *("--base-image", "--base-url", "--output", "--force", "--driver", "--driver-package"),
        *(
            "--kubernetes-version",
            "--packages",
            "--settings",
            "--apt-sources",
            "--size",
            "--check",
            "-o",
        ),
        *("--boot-test", "--boot-timeout"),
    ):
        assert f"  {option}" in run.out or f", {option}" in run.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nonsense"], "there is no option --nonsense"),
        (["--nonsense", "x"], "there is no option --nonsense"),
        (["image.qcow2"], "there is no option image.qcow2"),
        (["--output"], "--output needs a value"),
        (["--driver", "latest"], "a branch is three digits"),
        (["--driver=57"], "a branch is three digits"),
        (["--kubernetes-version", "1.35"], "a version is v1.x.y"),
        (["--driver", "570", "--driver-package", "{base}"], "exclude each other"),
        (["--driver-package", "{base}"], "a .deb or a .run is wanted"),
        (["--base-image", "/no/such"], "/no/such: no such file"),
        (["--settings", "/no/such"], "/no/such: no such file"),
        (["--check", "/no/such"], "/no/such: no such file"),
        (["--check", "{base}", "--driver", "570"], "takes no option of a build"),
        (["--packages", "a b"], "names parted by commas"),
        (["--size", "10G"], "whole GiB"),
        (["-o", "yaml", "--check", "{base}"], "table or json"),
        (["--boot-timeout", "soon"], "whole seconds"),
    ],
)
def test_refused(bench: Bench, options: list[str], words: str) -> None:
    """A wrong option ends it with status 2 and words about that option; nothing is begun."""
    run = bench.run(*(option.format(base=bench.base) for option in options))
    assert run.code == 2
    assert words in run.said
    assert not run.out
    assert not bench.dist.exists()


@pytest.mark.parametrize(
    ("program", "package", "options"),
    [
        ("guestfish", "libguestfs-tools", []),
        ("qemu-img", "qemu-utils", []),
        ("qemu-system-x86_64", "qemu-system-x86", ["--boot-test"]),
        ("genisoimage", "genisoimage", ["--boot-test"]),
    ],
)
def test_a_tool_is_missing(bench: Bench, program: str, package: str, options: list[str]) -> None:
    """The package to install is named; status 3 tells it from a failure."""
    bench.without(program)
    run = bench.build(*options)
    assert run.code == 3
    assert f"apt-get install {package}" in run.said
    assert not bench.remains()


def test_curl_is_for_downloads_only(bench: Bench) -> None:
    """A local base image needs no curl; the cloud image does."""
    bench.without("curl")
    assert bench.build().code == 0
    run = bench.run("--output", str(bench.output))
    assert run.code == 3
    assert "apt-get install curl" in run.said
