"""Put uv into a folder of the project, with what a bare machine has: Python, perhaps pip.

Usage: get_uv.py VERSION FOLDER. Idempotent; a failed attempt leaves nothing behind.
"""

import hashlib
import html
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

INDEX = "https://pypi.org/simple/uv/"
WHEELS = {"x86_64": "manylinux_2_17_x86_64", "aarch64": "manylinux_2_17_aarch64"}
LINK = re.compile(r'href="([^"]+)#sha256=([0-9a-f]{64})"')


def by_pip(version: str, target: Path) -> bool:
    """Install with pip, if this Python has it."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--target", str(target), f"uv=={version}"], check=False, capture_output=True
    )
    return done.returncode == 0


def fetch(url: str) -> bytes:
    """Return what an address holds; Python packages come by https alone."""
    with urllib.request.urlopen(url, timeout=300) as answer:  # noqa: S310 - the index is https
        content: bytes = answer.read()
        return content


def find(version: str, platform_tag: str) -> tuple[str, str]:
    """Return address and checksum of the wheel that the index has for a platform."""
    for href, checksum in LINK.findall(fetch(INDEX).decode()):
        name = href.rpartition("/")[2]
        if name.startswith(f"uv-{version}-") and platform_tag in name:
            return urllib.parse.urljoin(INDEX, html.unescape(href)), checksum
    raise SystemExit(f"the index has no uv {version} for {platform_tag}")


def by_wheel(version: str, target: Path) -> None:
    """Fetch the wheel itself, verify its checksum, unpack it."""
    wanted = WHEELS.get(platform.machine())
    if wanted is None:
        raise SystemExit(
            f"no uv for {platform.machine()}: install uv yourself, then run make again"
        )
    url, checksum = find(version, wanted)
    content = fetch(url)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise SystemExit(f"{url} does not have the checksum that the index gives")
    archive = target / "uv.whl"
    archive.write_bytes(content)
    with zipfile.ZipFile(archive) as unpacked:
        unpacked.extractall(target)
    archive.unlink()


def main() -> None:
    """Put ``FOLDER/bin/uv`` in place."""
    version, folder = sys.argv[1], Path(sys.argv[2])
    if (folder / "bin" / "uv").exists():
        return
    print(f"uv {version} is not on PATH: putting it into {folder}/", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        target = Path(temporary)
        if not by_pip(version, target):
            by_wheel(version, target)
        binary = next(path for path in target.rglob("uv") if path.is_file())
        binary.chmod(0o755)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        shutil.move(binary, folder / "bin" / "uv")


if __name__ == "__main__":
    main()
