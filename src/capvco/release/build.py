"""Builds the release assets: ``python -m capvco.release.build --output dist --version v0.1.0``.

The same sources give the same bytes: nothing of the time, the machine or the order of a set goes
into an asset.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata, resources
from pathlib import Path

import yaml

from capvco.api.policies import Manifest
from capvco.release.components import components

COMPONENTS = "infrastructure-components.yaml"
METADATA = "metadata.yaml"
GPU_FLAVOR = "cluster-template-gpu.yaml"
FLAVORS = ("cluster-template.yaml", GPU_FLAVOR)
GPU_ADDON = "addon-gpu-nvidia.yaml"
"""What the GPU flavor ends with; also an asset of its own, for clusters that are there already."""

_VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


class BadVersion(ValueError):  # noqa: N818 - reads as what is wrong
    """The version cannot be released; the message says what is possible."""


class _Plain(yaml.SafeDumper):
    """Writes a value that occurs twice twice: anchors make manifests hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature of PyYAML
        return True


def assets(version: str) -> dict[str, str]:
    """Return file name → text of all release assets. Raises BadVersion."""
    series = _file(METADATA)
    _check(version, series)
    flavors = {name: _file(f"flavors/{name}") for name in FLAVORS}
    addon = _file(GPU_ADDON)
    flavors[GPU_FLAVOR] += addon
    return {
        COMPONENTS: to_yaml(components(version)),
        METADATA: series,
        GPU_ADDON: addon,
        **flavors,
    }


def to_yaml(manifests: Iterable[Manifest]) -> str:
    """Write manifests as one YAML stream, in their order."""
    return yaml.dump_all(manifests, Dumper=_Plain, sort_keys=False, width=100, explicit_start=True)


def write(output: Path, version: str) -> list[Path]:
    """Write all release assets into a folder, which is made if need be, and return their paths."""
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in assets(version).items():
        path = output / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, or 2 for a version that cannot be released."""
    parser = argparse.ArgumentParser(
        prog="python -m capvco.release.build",
        description="Build what clusterctl needs to install CAPVCO and to make clusters.",
    )
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder (default: dist)")
    parser.add_argument(
        "--version",
        default=f"v{metadata.version('capvco')}",
        help="version of the release and of the image, vX.Y.Z (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        written = write(options.output, options.version)
    except BadVersion as error:
        parser.error(str(error))
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


def _file(name: str) -> str:
    return (resources.files("capvco.release") / name).read_text(encoding="utf-8")


def _check(version: str, series: str) -> None:
    found = _VERSION.fullmatch(version)
    if not found:
        raise BadVersion(
            f'"{version}" is not a release version: write v, major.minor.patch: v0.1.0'
        )
    wanted = (int(found[1]), int(found[2]))
    known = [(line["major"], line["minor"]) for line in yaml.safe_load(series)["releaseSeries"]]
    if wanted not in known:
        listed = ", ".join(f"v{major}.{minor}" for major, minor in known)
        raise BadVersion(
            f"{METADATA} has no release series for {version}, so clusterctl would refuse to install"
            f" it; it has {listed}: add the new series with its contract"
        )


if __name__ == "__main__":
    sys.exit(main())
