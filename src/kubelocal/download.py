"""Official archives and binaries over HTTPS: whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import stat
import tarfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx2
import yaml

from kubelocal.catalogue import APISERVER, CONTROLLER_MANAGER, ETCD, KUBECTL, KUBERNETES_VERSION
from kubelocal.errors import DownloadFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubelocal.catalogue import Tool

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le"}
_CHUNK: Final = 1 << 18


@dataclass(frozen=True)
class Sources:
    """Where the official files are; a test or a mirror gives other addresses."""

    envtest_index: str = (
        "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/"
        "envtest-releases.yaml"
    )
    kubernetes: str = "https://dl.k8s.io/release"
    connect_seconds: float = 4.0
    """For a connection: behind a firewall that swallows packets this is all the time lost."""
    read_seconds: float = 20.0
    """Longest silence within an answer."""
    whole_seconds: float = 900.0
    """Longest time for one file."""


@dataclass(frozen=True)
class Remote:
    """One file to fetch: its address, the digest it must have, and the tools it holds."""

    url: str
    algorithm: str
    digest: str
    tools: tuple[Tool, ...]
    archive: bool


class Downloader:
    """Fetches what the official sources offer for this machine."""

    def __init__(self, sources: Sources, machine: str = platform.machine()) -> None:
        self._sources = sources
        self._architecture = _ARCHITECTURES.get(machine, machine)
        limits = httpx2.Timeout(sources.read_seconds, connect=sources.connect_seconds)
        self._client = httpx2.Client(timeout=limits, follow_redirects=True)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def offer(self, tool: Tool) -> Remote | None:
        """Say what holds the tool; None where nobody publishes it with a checksum.

        Raises DownloadFailed where the network or the list of files says no.
        """
        if tool in (ETCD, APISERVER, KUBECTL):
            return self._envtest()
        if tool == CONTROLLER_MANAGER:
            return self._kubernetes_binary(tool)
        return None

    def _envtest(self) -> Remote:
        index = self._sources.envtest_index
        try:
            releases = yaml.safe_load(self._text(index))["releases"]
            name, files = _newest(releases, KUBERNETES_VERSION)
            file = files[f"envtest-{name}-linux-{self._architecture}.tar.gz"]
            url, digest = str(file["selfLink"]), str(file["hash"])
        except (yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
            raise DownloadFailed(
                f"{index} has no archive of Kubernetes {APISERVER.minor}x for "
                f"linux/{self._architecture} ({error!r})"
            ) from error
        return Remote(url, "sha512", digest, (ETCD, APISERVER, KUBECTL), archive=True)

    def _kubernetes_binary(self, tool: Tool) -> Remote:
        base = f"{self._sources.kubernetes}/{tool.version}/bin/linux/{self._architecture}"
        url = f"{base}/{tool.name}"
        words = self._text(f"{url}.sha256").split()
        if not words or not re.fullmatch(r"[0-9a-f]{64}", words[0]):
            raise DownloadFailed(f"{url}.sha256 does not hold a SHA-256 checksum")
        return Remote(url, "sha256", words[0], (tool,), archive=False)

    def _text(self, url: str) -> str:
        try:
            answer = self._client.get(url)
            answer.raise_for_status()
        except httpx2.HTTPError as error:
            raise DownloadFailed(_reason(url, error)) from error
        return answer.text

    def fetch(self, remote: Remote, folder: Path, advance: Callable[[float], None]) -> None:
        """Put the file's tools into `folder`; raises DownloadFailed, then none is fit for use."""
        file = folder / "download"
        digest = self._stream(remote, file, advance)
        if digest != remote.digest:
            raise DownloadFailed(
                f"{remote.url} is not what its publisher's checksum says: "
                f"{remote.algorithm} {digest}, expected {remote.digest}"
            )
        if remote.archive:
            _extract(remote, file, folder)
            file.unlink()
        else:
            file.rename(folder / remote.tools[0].name)
        for tool in remote.tools:
            path = folder / tool.name
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def _stream(self, remote: Remote, file: Path, advance: Callable[[float], None]) -> str:
        digest = hashlib.new(remote.algorithm)
        deadline = time.monotonic() + self._sources.whole_seconds
        got = 0
        try:
            with self._client.stream("GET", remote.url) as answer, file.open("wb") as target:
                answer.raise_for_status()
                size = int(answer.headers.get("content-length", 0))
                for chunk in answer.iter_raw(_CHUNK):
                    target.write(chunk)
                    digest.update(chunk)
                    got += len(chunk)
                    if size:
                        advance(min(got / size, 0.99))
                    if time.monotonic() > deadline:
                        raise DownloadFailed(
                            f"{remote.url}: not whole after {self._sources.whole_seconds:.0f} s"
                        )
        except httpx2.HTTPError as error:
            raise DownloadFailed(_reason(remote.url, error)) from error
        return digest.hexdigest()


def _newest(
    releases: dict[str, dict[str, dict[str, str]]], version: str
) -> tuple[str, dict[str, dict[str, str]]]:
    minor = version.rpartition(".")[0] + "."
    names = [name for name in releases if re.fullmatch(re.escape(minor) + r"\d+", name)]
    name = max(names, key=lambda name: int(name.rpartition(".")[2]), default=f"{minor}x")
    return name, releases[name]


def _extract(remote: Remote, file: Path, folder: Path) -> None:
    wanted = {tool.name for tool in remote.tools}
    try:
        with tarfile.open(file, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                # Only plain files, under their last name: an archive cannot write elsewhere.
                source = archive.extractfile(member) if member.isfile() else None
                if source is not None and name in wanted:
                    with source, (folder / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
                    wanted.discard(name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DownloadFailed(f"{remote.url} is not a readable archive: {error}") from error
    if wanted:
        raise DownloadFailed(f"{remote.url} does not hold {', '.join(sorted(wanted))}")


def _reason(url: str, error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.HTTPStatusError):
        return f"{url} answered {error.response.status_code}"
    said = str(error) or type(error).__name__
    return f"{url} cannot be reached or broke off: {said}"
