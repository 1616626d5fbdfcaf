"""A tool comes from the first place that has a fit one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import CONTROLLER_MANAGER, CORE_MANAGER, ETCD, KUBECTL
from kubelocal.download import Sources
from kubelocal.errors import BuildFailed, DownloadFailed, NeedsGo
from kubelocal.ports import free_ports
from kubelocal.store import Store
from tests.unit.kubelocal.support import Heard, fake_go, printing, running, script, until

if TYPE_CHECKING:
    from pathlib import Path

WRITES = 'printf tool > "$target"'
ETCD_SAYS = "etcd Version: 3.6.1\nGit SHA: none"


@pytest.fixture
def offline() -> Sources:
    """Give sources that refuse every connection."""
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    return Sources(envtest_index=f"{base}/index.yaml", kubernetes=base)


def binaries(
    tmp_path: Path, env: dict[str, str], offline: Sources, source: Source = Source.AUTO
) -> Binaries:
    return Binaries(Store(tmp_path / "cache"), env, source, Heard(), offline)


def lines(found: Binaries) -> str:
    assert isinstance(found.progress, Heard)
    return "\n".join(found.progress.lines)


def test_given_assets_come_first_when_fit(tmp_path: Path, offline: Sources) -> None:
    """Any patch of the right minor will do."""
    path = printing(tmp_path / "assets" / "etcd", ETCD_SAYS)
    env = fake_go(tmp_path / "go", WRITES) | {"KUBEBUILDER_ASSETS": str(path.parent)}
    assert binaries(tmp_path, env, offline).get([ETCD]) == {"etcd": path}


def test_given_assets_of_another_minor_are_not_used_and_that_is_said(
    tmp_path: Path, offline: Sources
) -> None:
    """The build takes over."""
    printing(tmp_path / "assets" / "etcd", "etcd Version: 3.5.21")
    env = fake_go(tmp_path / "go", WRITES) | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    found = binaries(tmp_path, env, offline)
    assert found.get([ETCD])["etcd"].read_text() == "tool"
    assert "v3.5.21, v3.6.x is needed" in lines(found)
    assert "no download: " in lines(found)


def test_a_tool_on_path_is_used_only_when_the_cache_has_none(
    tmp_path: Path, offline: Sources
) -> None:
    """What somebody else may replace at any time is the second choice."""
    path = printing(tmp_path / "bin" / "kubectl", "Client Version: v1.36.0")
    env = fake_go(tmp_path / "go", WRITES)
    built = binaries(tmp_path, env, offline, Source.BUILD).get([KUBECTL])
    env["PATH"] = f"{path.parent}:{env['PATH']}"
    assert binaries(tmp_path, env, offline).get([KUBECTL]) == built
    assert binaries(tmp_path / "other", env, offline).get([KUBECTL]) == {"kubectl": path}


def test_a_build_is_kept_and_needs_no_go_later(tmp_path: Path, offline: Sources) -> None:
    """A warm start works with an empty PATH."""
    env = fake_go(tmp_path / "go", WRITES)
    built = binaries(tmp_path, env, offline).get([ETCD, CORE_MANAGER])
    bare = {"PATH": str(tmp_path), "GOROOT": str(tmp_path)}
    for later in (env, bare):
        assert binaries(tmp_path, later, offline).get([ETCD, CORE_MANAGER]) == built
    assert len((tmp_path / "go" / "builds.log").read_text().splitlines()) == 2
    assert built[ETCD.name].stat().st_size == 4


def test_another_go_builds_anew(tmp_path: Path, offline: Sources) -> None:
    """The Go version is part of the key."""
    first = binaries(tmp_path, fake_go(tmp_path / "a", WRITES), offline).get([ETCD])
    newer = fake_go(tmp_path / "b", WRITES, "go1.27.1")
    assert binaries(tmp_path, newer, offline).get([ETCD]) != first


def test_a_failed_build_says_what_go_said_and_leaves_nothing(
    tmp_path: Path, offline: Sources
) -> None:
    """The next try starts from nothing and can succeed."""
    failing = fake_go(tmp_path / "go", 'printf half > "$target"; echo "no space"; exit 1')
    with pytest.raises(BuildFailed, match="no space"):
        binaries(tmp_path, failing, offline).get([ETCD])
    assert list((tmp_path / "cache" / "scratch").iterdir()) == []
    good = fake_go(tmp_path / "go", WRITES)
    assert binaries(tmp_path, good, offline).get([ETCD])["etcd"].read_text() == "tool"


def test_progress_counts_the_packages_go_names(tmp_path: Path, offline: Sources) -> None:
    """Half the packages are nearly half of the way."""
    env = fake_go(tmp_path / "go", f"echo example.org/one; echo example.org/two; {WRITES}")
    found = binaries(tmp_path, env, offline)
    found.get([ETCD])
    assert isinstance(found.progress, Heard)
    assert found.progress.parts == [("etcd", 0.45), ("etcd", 0.9), ("etcd", 1)]


def test_an_old_go_is_refused_with_what_to_do(tmp_path: Path, offline: Sources) -> None:
    """The message names the version there is, the one needed and where to get it."""
    env = fake_go(tmp_path / "go", WRITES, "go1.19.8")
    with pytest.raises(NeedsGo, match=r"1\.26 or newer is needed: it is go1\.19\.8.*go\.dev/dl"):
        binaries(tmp_path, env, offline).get([ETCD])


def test_a_missing_go_is_said_with_where_it_was_looked_for(
    tmp_path: Path, offline: Sources
) -> None:
    """And what is to be done."""
    bare = {"PATH": str(tmp_path), "GOROOT": str(tmp_path)}
    with pytest.raises(NeedsGo, match=rf"Go is not installed: neither PATH nor {tmp_path}/bin"):
        binaries(tmp_path, bare, offline).get([ETCD])


def test_downloads_alone_are_not_enough_for_what_nobody_publishes(
    tmp_path: Path, offline: Sources
) -> None:
    """The managers of Cluster API come as images only."""
    env = fake_go(tmp_path / "go", WRITES)
    with pytest.raises(DownloadFailed, match=r"capi-core-manager.*--source auto"):
        binaries(tmp_path, env, offline, Source.DOWNLOAD).get([CORE_MANAGER])


FETCH = """
import sys
from pathlib import Path
from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import ETCD
from kubelocal.store import Store
import os
Binaries(Store(Path(sys.argv[1])), os.environ, Source.BUILD).get([ETCD])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_an_ended_build_takes_its_compilers_along_and_leaves_nothing_broken(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Neither `go` nor what it has started outlives us, and the next build works."""
    pids = tmp_path / "pids"
    slow = (
        f'printf half > "$target"; sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait'
    )
    env = fake_go(tmp_path / "go", slow)
    cache = tmp_path / "cache"
    building = subprocess.Popen(
        [sys.executable, "-c", FETCH, str(cache)],
        env=os.environ | env,
        stderr=subprocess.DEVNULL,
    )
    until(pids.exists)
    compilers = [int(pid) for pid in pids.read_text().split()]
    assert all(running(pid) for pid in compilers)
    building.send_signal(number)
    building.wait()
    until(lambda: not any(running(pid) for pid in compilers))
    assert Store(cache).matching("") == ()
    done = fake_go(tmp_path / "go", WRITES)
    again = Binaries(Store(cache), done, Source.BUILD).get([ETCD])
    assert again["etcd"].read_text() == "tool"
    assert list((cache / "scratch").iterdir()) == []


def test_a_tool_that_hangs_or_fails_when_asked_its_version_is_not_fit(
    tmp_path: Path, offline: Sources
) -> None:
    """It says nothing about its version, so another source is asked."""
    script(tmp_path / "assets" / CONTROLLER_MANAGER.name, "exit 3")
    env = fake_go(tmp_path / "go", WRITES) | {"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}
    found = binaries(tmp_path, env, offline)
    assert found.get([CONTROLLER_MANAGER])[CONTROLLER_MANAGER.name].read_text() == "tool"
    assert "of no known version" in lines(found)
