"""Repositories of Debian packages in a folder: the driver's, and the container toolkit's.

What is in the packages is a stub, but for nvidia-ctk; that they are installed is apt's real work.
"""

import gzip
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from msgspec import Struct


class Package(Struct, frozen=True, kw_only=True):
    """One package: what it is called, needs, and has."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    files: Mapping[str, Path] = {}
    """Where the files come from, by their path in the guest."""
    postinst: str = ""


class Key:
    """A key of its own to sign with; made new, and forgotten with the folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir(mode=0o700)
        self._run("--quick-generate-key", "guests@test.invalid", "ed25519", "sign", "never")

    def public(self) -> bytes:
        """Return what readers need, armoured."""
        return self._run("--armor", "--export")

    def sign(self, text: bytes) -> bytes:
        """Return the text, signed."""
        return self._run("--clearsign", text=text)

    def close(self) -> None:
        """End what gpg has left running."""
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False)

    def _run(self, *arguments: str, text: bytes = b"") -> bytes:
        quiet = ("--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "")
        command = ["gpg", "--homedir", str(self._home), *quiet, *arguments]
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout


@contextmanager
def a_key(home: Path) -> Iterator[Key]:
    """Give a key until the block ends."""
    key = Key(home)
    try:
        yield key
    finally:
        key.close()


def repository(folder: Path, key: Key, packages: tuple[Package, ...], scratch: Path) -> None:
    """Write a flat repository, signed."""
    folder.mkdir(parents=True)
    entries = [_entry(_built(package, folder, scratch), package) for package in packages]
    index = "\n".join(entries).encode()
    files = {"Packages": index, "Packages.gz": gzip.compress(index, mtime=0)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = "".join(
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        for name, content in files.items()
    )
    release = f"Origin: test\nSuite: stable\nDate: {formatdate(usegmt=True)}\nSHA256:\n{sums}"
    (folder / "InRelease").write_bytes(key.sign(release.encode()))


def _control(package: Package) -> str:
    depends = f"Depends: {', '.join(package.depends)}\n" if package.depends else ""
    return (
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\n"
        f"Maintainer: Tests <guests@test.invalid>\n{depends}Description: NVIDIA Server Driver\n"
    )


def _entry(built: Path, package: Package) -> str:
    content = built.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    place = f"Filename: ./{built.name}\nSize: {len(content)}\nSHA256: {digest}\n"
    return _control(package) + place


def _built(package: Package, folder: Path, scratch: Path) -> Path:
    root = scratch / package.name
    control = root / "DEBIAN"
    control.mkdir(parents=True)
    (control / "control").write_text(_control(package))
    if package.postinst:
        script = control / "postinst"
        script.write_text(f"#!/bin/sh\nset -e\n{package.postinst}\n")
        script.chmod(0o755)
    for path, source in package.files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    name = f"{package.name}_{package.version}_amd64.deb"
    build = ["dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(folder / name)]
    subprocess.run(build, check=True, capture_output=True)
    return folder / name
