"""The download of the cloud image: verified, kept, gone on with."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.unit.image_builder.bench import Bench, Run

NAME = "ubuntu-24.04-server-cloudimg-amd64.img"
IMAGE = bytes(range(256)) * 400


class Mirror(ThreadingHTTPServer):
    """A mirror that can be out of step, cut its answers short, or know no ranges."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sums = f"{hashlib.sha256(IMAGE).hexdigest()} *{NAME}\n"
        self.image = IMAGE
        self.ranges = True
        self.cuts = 0
        """So many answers end halfway."""
        self.sent = 0
        """Bytes of the image."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        mirror = self.server
        if self.path == "/SHA256SUMS":
            self._answer(200, mirror.sums.encode())
        elif self.path == f"/{NAME}":
            self._image(mirror)
        else:
            self._answer(404, b"")

    def _image(self, mirror: Mirror) -> None:
        first, status = 0, 200
        asked = self.headers.get("Range", "")
        if mirror.ranges and asked:
            first, status = int(asked.removeprefix("bytes=").split("-")[0]), 206
            if first >= len(mirror.image):
                self._answer(416, b"")
                return
        body = mirror.image[first:]
        length = len(body)
        if mirror.cuts:
            mirror.cuts -= 1
            body = body[: length // 2]
        mirror.sent += len(body)
        self._answer(status, body, length, first)
        self.close_connection = True

    def _answer(self, status: int, body: bytes, length: int | None = None, first: int = 0) -> None:
        total = len(body) if length is None else length
        self.send_response(status)
        self.send_header("Content-Length", str(total))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{first + total - 1}/{first + total}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    """Run a mirror on loopback."""
    server = Mirror()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def build(bench: Bench, mirror: Mirror) -> Run:
    return bench.run("--base-url", mirror.url, "--output", str(bench.output))


def kept(bench: Bench, ending: str) -> list[bytes]:
    cache = bench.folder / "home" / ".cache" / "capvco-image-builder"
    return [path.read_bytes() for path in cache.glob(f"*{ending}")]


def works(run: Run) -> None:
    assert run.code == 0, run.said


def test_downloaded_once(bench: Bench, mirror: Mirror) -> None:
    """The verified image is kept: a second build, of another size, downloads nothing."""
    works(build(bench, mirror))
    assert kept(bench, ".img") == [IMAGE]
    assert mirror.sent == len(IMAGE)
    works(bench.run("--base-url", mirror.url, "--output", str(bench.output), "--force"))
    assert mirror.sent == len(IMAGE)


def test_cut(bench: Bench, mirror: Mirror) -> None:
    """A connection that breaks is taken up where it broke."""
    mirror.cuts = 2
    works(build(bench, mirror))
    assert kept(bench, ".img") == [IMAGE]
    assert mirror.sent == len(IMAGE)


def test_taken_up_by_the_next_run(bench: Bench, mirror: Mirror) -> None:
    """What has come is kept beyond the end of a run."""
    mirror.cuts = 3
    run = build(bench, mirror)
    assert run.code == 1
    assert "the next run goes on with it" in run.said
    assert not bench.remains()
    works(build(bench, mirror))
    assert mirror.sent == len(IMAGE)


def test_a_mirror_without_ranges(bench: Bench, mirror: Mirror) -> None:
    """Where no part can be asked for, it starts over."""
    mirror.ranges = False
    mirror.cuts = 1
    works(build(bench, mirror))
    assert kept(bench, ".img") == [IMAGE]


def test_a_wrong_sum(bench: Bench, mirror: Mirror) -> None:
    """An image that is not what the sums say is never used, nor kept."""
    mirror.image = b"something else"
    run = build(bench, mirror)
    assert run.code == 1
    assert "is not what SHA256SUMS says" in run.said
    assert not kept(bench, ".img")
    assert not kept(bench, ".part")
    assert not bench.output.exists()
    mirror.image = IMAGE
    works(build(bench, mirror))


def test_a_wrong_beginning(bench: Bench, mirror: Mirror) -> None:
    """What an earlier run left may be as long as the image, and another: it starts over."""
    cache = bench.folder / "home" / ".cache" / "capvco-image-builder"
    cache.mkdir(parents=True)
    (cache / f"{hashlib.sha256(IMAGE).hexdigest()}.part").write_bytes(b"x" * len(IMAGE))
    works(build(bench, mirror))
    assert kept(bench, ".img") == [IMAGE]


def test_a_new_release(bench: Bench, mirror: Mirror) -> None:
    """Another sum is another image: a new output."""
    works(build(bench, mirror))
    mirror.image = b"a newer release"
    mirror.sums = f"{hashlib.sha256(mirror.image).hexdigest()}  {NAME}\n"
    (bench.play / "converted").write_bytes(b"of the newer release")
    works(build(bench, mirror))
    assert bench.output.read_bytes() == b"of the newer release"


@pytest.mark.parametrize("sums", ["", "<html>a proxy's page</html>\n", f"abc *{NAME}\n"])
def test_no_sum(bench: Bench, mirror: Mirror, sums: str) -> None:
    """Without a sum nothing is downloaded."""
    mirror.sums = sums
    run = build(bench, mirror)
    assert run.code == 1
    assert f"SHA256SUMS has no sum for {NAME}" in run.said
    assert mirror.sent == 0


def test_out_of_reach(bench: Bench, mirror: Mirror) -> None:
    """The words name the address and the ways around it."""
    run = bench.run("--base-url", f"{mirror.url}/nowhere", "--output", str(bench.output))
    assert run.code == 1
    assert f"{mirror.url}/nowhere/SHA256SUMS cannot be fetched" in run.said
    assert "--base-image" in run.said
