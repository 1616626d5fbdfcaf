"""Downloads against a server on this machine: whole and verified, or left to a build."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
import yaml

from kubelocal.binaries import Binaries, Source
from kubelocal.catalogue import APISERVER, CONTROLLER_MANAGER, ETCD, KUBECTL
from kubelocal.download import Downloader, Sources
from kubelocal.errors import DownloadFailed
from kubelocal.store import Store
from tests.unit.kubelocal.support import Heard, fake_go

if TYPE_CHECKING:
    from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler], None]


def sends(body: bytes, status: int = 200, claimed: int | None = None) -> Answer:
    """Answer with a body; `claimed` is the length it pretends to have."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if claimed is None else claimed))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


class Server:
    """An HTTP server whose answers a test chooses by path."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.index: dict[str, dict[str, dict[str, str]]] = {}
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answers.get(self.path, sends(b"", 404))(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def hangs(self, body: bytes) -> Answer:
        """Answer with the beginning of something longer, then keep silent."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            sends(body, claimed=len(body) + 1000)(handler)
            self.released.wait()

        return answer

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def sources(self) -> Sources:
        return Sources(
            envtest_index=f"{self.url}/index.yaml",
            kubernetes=f"{self.url}/release",
            connect_seconds=2,
            read_seconds=0.3,
        )

    def offers(self, archive: bytes, version: str = "v1.36.2", digest: str = "") -> None:
        """Offer an envtest archive in the index, as controller-tools does."""
        name = f"envtest-{version}-linux-amd64.tar.gz"
        file = {
            "hash": digest or hashlib.sha512(archive).hexdigest(),
            "selfLink": f"{self.url}/archive",
        }
        self.index = {version: {name: file}, "v1.35.9": {}}
        self.answers["/index.yaml"] = self._sends_index
        self.answers["/archive"] = sends(archive)

    def _sends_index(self, handler: BaseHTTPRequestHandler) -> None:
        sends(yaml.safe_dump({"releases": self.index}).encode())(handler)

    def offers_manager(self, body: bytes) -> None:
        """Offer kube-controller-manager, as dl.k8s.io does."""
        base = f"/release/{CONTROLLER_MANAGER.version}/bin/linux/amd64/kube-controller-manager"
        self.answers[base] = sends(body)
        self.answers[f"{base}.sha256"] = sends(hashlib.sha256(body).hexdigest().encode())


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def archive(*names: str) -> bytes:
    """Pack files that only say their name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            packed.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


GOOD = archive(*(f"controller-tools/envtest/{t.name}" for t in (ETCD, APISERVER, KUBECTL)))


def fetch(server: Server, folder: Path) -> None:
    downloader = Downloader(server.sources, "x86_64")
    try:
        remote = downloader.offer(ETCD)
        assert remote is not None
        downloader.fetch(remote, folder, lambda _: None)
    finally:
        downloader.close()


def test_a_good_archive_gives_executables(server: Server, tmp_path: Path) -> None:
    """All three tools, under their names, executable, and nothing else."""
    server.offers(GOOD)
    fetch(server, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert (tmp_path / "etcd").read_text() == "controller-tools/envtest/etcd"
    assert all(path.stat().st_mode & 0o111 for path in tmp_path.iterdir())


def test_an_archive_cannot_write_elsewhere(server: Server, tmp_path: Path) -> None:
    """Its members land in the folder under their last name, or not at all."""
    names = ("../../etcd", "/tmp/kube-apiserver", "x/kubectl", "../evil")
    server.offers(archive(*names))
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    fetch(server, folder)
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "etcd",
        "kube-apiserver",
        "kubectl",
    ]


def wrong_checksum(server: Server) -> None:
    server.offers(GOOD, digest="0" * 128)


def truncated(server: Server) -> None:
    server.offers(GOOD)
    server.answers["/archive"] = sends(GOOD[:100], claimed=len(GOOD))


def truncated_quietly(server: Server) -> None:
    server.offers(GOOD)
    server.answers["/archive"] = sends(GOOD[:100])


def missing(server: Server) -> None:
    server.offers(GOOD)
    del server.answers["/archive"]


def hanging(server: Server) -> None:
    server.offers(GOOD)
    server.answers["/archive"] = server.hangs(GOOD[:100])


def no_index(_: Server) -> None:
    pass


def odd_index(server: Server) -> None:
    server.answers["/index.yaml"] = sends(b"<html>maintenance</html>")


def other_versions(server: Server) -> None:
    server.offers(GOOD, version="v1.34.1")


def not_an_archive(server: Server) -> None:
    server.offers(b"<html>")


def incomplete(server: Server) -> None:
    server.offers(archive("etcd"))


@pytest.mark.parametrize(
    ("arrange", "said"),
    [
        (wrong_checksum, "not what its publisher's checksum says"),
        (truncated, "broke off"),
        (truncated_quietly, "not what its publisher's checksum says"),
        (missing, "answered 404"),
        (hanging, "broke off"),
        (no_index, "index.yaml answered 404"),
        (odd_index, "has no archive of Kubernetes"),
        (other_versions, "has no archive of Kubernetes v1.36.x"),
        (not_an_archive, "not a readable archive"),
        (incomplete, "does not hold kube-apiserver, kubectl"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bad_download_is_said_and_the_build_takes_over(
    server: Server, tmp_path: Path, arrange: Callable[[Server], None], said: str
) -> None:
    """And the cache holds nothing of it."""
    arrange(server)
    with pytest.raises(DownloadFailed, match=said):
        fetch(server, tmp_path)
    env = fake_go(tmp_path / "go", 'printf built > "$target"')
    heard = Heard()
    store = Store(tmp_path / "cache")
    found = Binaries(store, env, Source.AUTO, heard, server.sources).get([ETCD])
    assert found["etcd"].read_text() == "built"
    assert said in "\n".join(heard.lines)
    assert store.matching("download-") == ()


def test_what_is_downloaded_is_kept_and_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    """The second time needs no server, and nothing was built."""
    server.offers(GOOD)
    server.offers_manager(b"manager")
    env = fake_go(tmp_path / "go", "exit 1")
    tools = [ETCD, APISERVER, CONTROLLER_MANAGER, KUBECTL]
    store = Store(tmp_path / "cache")
    first = Binaries(store, env, Source.AUTO, sources=server.sources).get(tools)
    server.answers.clear()
    again = Binaries(store, env, Source.DOWNLOAD, sources=server.sources).get(tools)
    assert first == again
    assert first[CONTROLLER_MANAGER.name].read_bytes() == b"manager"
    assert not (tmp_path / "go" / "builds.log").exists()


def test_the_newest_patch_of_the_minor_is_taken(server: Server, tmp_path: Path) -> None:
    """By number, not by letter: v1.36.10 is newer than v1.36.9."""
    server.offers(GOOD, version="v1.36.10")
    server.index["v1.36.9"] = {}
    fetch(server, tmp_path)
    assert (tmp_path / "etcd").exists()
