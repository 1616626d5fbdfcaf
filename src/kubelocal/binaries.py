"""Find or make each tool: given assets, the cache, PATH, the official archives, a build."""

from __future__ import annotations

import enum
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kubelocal import golang
from kubelocal.catalogue import MODULES, Tool
from kubelocal.download import Downloader, Remote, Sources
from kubelocal.errors import DownloadFailed, NeedsGo
from kubelocal.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubelocal.store import Entry, Store


class Source(enum.StrEnum):
    """Where a tool that is not at hand may come from."""

    AUTO = "auto"
    """Whatever is at hand or quickest: assets, cache, PATH, download, build."""
    DOWNLOAD = "download"
    """Official archives only."""
    BUILD = "build"
    """Go modules only."""


def recipe(tool: Tool) -> str:
    """Hash everything but the toolchain that decides what a build of this tool is."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULES / tool.module / name).read_bytes())
    for text in (tool.package, tool.ldflags, *golang.BUILD_FLAGS, "CGO_ENABLED=0", _machine()):
        digest.update(f"\0{text}".encode())
    return digest.hexdigest()[:16]


def _machine() -> str:
    return f"{os.uname().sysname}-{os.uname().machine}".lower()


@dataclass
class Binaries:
    """Resolves tools to paths. Safe to use from several processes at once on one store."""

    store: Store
    env: Mapping[str, str]
    source: Source = Source.AUTO
    progress: Progress = field(default_factory=Progress)
    sources: Sources = field(default_factory=Sources)

    def get(self, tools: Sequence[Tool]) -> dict[str, Path]:
        """Give a path for each tool, by name; makes what is missing.

        Raises NeedsGo or BuildFailed where a tool can be had in no way, DownloadFailed where
        downloads alone were allowed. May be called again after any failure.
        """
        found = {tool.name: path for tool in tools if (path := self._at_hand(tool))}
        missing = [tool for tool in tools if tool.name not in found]
        if missing:
            try:
                found |= self._make(missing)
            finally:
                self.progress.close()
        return found

    def _at_hand(self, tool: Tool) -> Path | None:
        if self.source is Source.AUTO and (path := self._given(tool)):
            return path
        if self.source is not Source.DOWNLOAD and (entry := self._built(tool)):
            return entry.path / tool.name
        if self.source is not Source.BUILD and (entry := self._downloaded(tool)):
            return entry.path / tool.name
        if self.source is Source.AUTO:
            return self._on_path(tool)
        return None

    def _given(self, tool: Tool) -> Path | None:
        folder = self.env.get("KUBEBUILDER_ASSETS")
        if not folder or not tool.version_command:
            return None
        path = Path(folder) / tool.name
        return path if path.exists() and self._fit(tool, path) else None

    def _on_path(self, tool: Tool) -> Path | None:
        found = shutil.which(tool.name, path=self.env.get("PATH", ""))
        if not found or not tool.version_command:
            return None
        return Path(found) if self._fit(tool, Path(found)) else None

    def _fit(self, tool: Tool, path: Path) -> bool:
        version = _version(tool, path)
        if f"{version}.".startswith(tool.minor):
            return True
        self.progress.say(
            f"{path} is {version or 'of no known version'}, {tool.minor}x is needed: not used"
        )
        return False

    def _built(self, tool: Tool) -> Entry | None:
        go = self._local_go
        if go is not None:
            return self.store.get(_build_key(tool, go.version))
        # Without Go nothing could be built anyway, so any earlier build of the same recipe is it.
        return next(iter(self.store.matching(f"{tool.name}-{recipe(tool)}-")), None)

    def _downloaded(self, tool: Tool) -> Entry | None:
        entries = self.store.matching("download-")
        return next((e for e in entries if e.facts.get(tool.name) == tool.minor), None)

    @cached_property
    def _local_go(self) -> golang.Go | None:
        try:
            return golang.find(self.env, self.store.root)
        except NeedsGo:
            return None

    def _make(self, missing: Sequence[Tool]) -> dict[str, Path]:
        self.progress.plan({tool.name: tool.build_seconds for tool in missing})
        found = self._download(missing) if self.source is not Source.BUILD else {}
        rest = [tool for tool in missing if tool.name not in found]
        if rest and self.source is Source.DOWNLOAD:
            raise DownloadFailed(
                f"not to be had as a download: {', '.join(tool.name for tool in rest)}. "
                "Allow builds with `--source auto`"
            )
        for tool in rest:
            found[tool.name] = self._build(tool)
        return found

    def _download(self, missing: Sequence[Tool]) -> dict[str, Path]:
        """Give what could be fetched; what could not is said and left to the next way."""
        found: dict[str, Path] = {}
        downloader = Downloader(self.sources)
        try:
            for tool in missing:
                if tool.name not in found and (remote := downloader.offer(tool)):
                    found |= self._fetched(downloader, remote)
        except DownloadFailed as error:
            self.progress.say(f"no download: {error}")
        finally:
            downloader.close()
        return {tool.name: found[tool.name] for tool in missing if tool.name in found}

    def _fetched(self, downloader: Downloader, remote: Remote) -> dict[str, Path]:
        key = f"download-{remote.digest[:32]}"
        with self.store.locked(key, lambda: self._wait_said("download", remote.url)):
            entry = self.store.get(key)
            if entry is None:
                self.progress.say(f"downloading {remote.url}")
                facts = {tool.name: tool.minor for tool in remote.tools} | {"url": remote.url}
                with self.store.making(key, facts) as folder:
                    first = remote.tools[0].name
                    downloader.fetch(
                        remote, folder, lambda part: self.progress.advance(first, part)
                    )
                entry = self.store.get(key)
        if entry is None:
            raise DownloadFailed(f"{remote.url} vanished from the cache {self.store.root}")
        for tool in remote.tools:
            self.progress.advance(tool.name, 1)
        return {tool.name: entry.path / tool.name for tool in remote.tools}

    def _build(self, tool: Tool) -> Path:
        go = golang.find(self.env, self.store.root)
        key = _build_key(tool, go.version)
        with self.store.locked(key, lambda: self._wait_said("build", tool.name)):
            entry = self.store.get(key)
            if entry is None:
                self.progress.say(f"building {tool.name} {tool.version} with {go.version}")
                facts = {"version": tool.version, "go": go.version, "package": tool.package}
                with self.store.making(key, facts) as folder:
                    golang.build(
                        go, tool, folder / tool.name, lambda p: self.progress.advance(tool.name, p)
                    )
        self.progress.advance(tool.name, 1)
        return self.store.root / "entries" / key / tool.name

    def _wait_said(self, what: str, name: str) -> None:
        self.progress.say(f"waiting for another process to {what} {name}")


def _build_key(tool: Tool, go_version: str) -> str:
    return f"{tool.name}-{recipe(tool)}-{go_version}"


def _version(tool: Tool, path: Path) -> str:
    try:
        answer = subprocess.run(
            [path, *tool.version_command], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+\.\d+\.\d+", answer.stdout)
    return f"v{found.group()}" if found else ""
