"""An image with everything baked in, over the network, in libguestfs: the long form."""

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.image.archive import KUBERNETES, VERSION
from tests.image.builder import Builder
from tests.image.tree import RECIPE
from tests.support.guests.debian import debian_image

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

HOST = "169.254.2.2"
"""Where a machine of libguestfs finds loopback of this one."""


@pytest.fixture
def mirror(packages: Path) -> Iterator[str]:
    """Serve the archive of stand-ins; give its address as the image sees it."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(packages))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    yield f"http://{HOST}:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_everything(builder: Builder, mirror: str, tmp_path: Path) -> None:
    """Driver, toolkit, runtime, Kubernetes and a package, on a disk that was made larger."""
    sources, settings, output = (tmp_path / name for name in ("sources", "settings", "gpu.qcow2"))
    line = f"deb [trusted=yes] {mirror} ./"
    sources.write_text(f"{line}\n")
    settings.write_text(
        f"CAPVCO_TOOLKIT_KEY={mirror}/key CAPVCO_KUBERNETES_KEY={mirror}/key\n"
        f"CAPVCO_TOOLKIT_LIST='{line}' CAPVCO_KUBERNETES_LIST='{line}'\n"
    )
    run = builder.run(
        *("--base-image", str(debian_image(RECIPE).disk), "--output", str(output)),
        *("--driver", "570", "--kubernetes-version", KUBERNETES, "--packages", "qemu-guest-agent"),
        *("--apt-sources", str(sources), "--settings", str(settings)),
    )
    assert run.code == 0, run.said
    looked = builder.run("--check", str(output), "-o", "json", "--boot-test")
    assert looked.code == 0, looked.said
    said, _, booted = looked.out.partition("\n]}\n")
    details = {each["name"]: each for each in json.loads(said + "]}")["checks"]}
    for name in ("driver", "toolkit", "runtime", "kubeadm", "kubelet", "containerd", "guest-agent"):
        assert details[name]["state"] == "ok", details[name]
    assert details["driver"]["detail"].startswith(f"{VERSION} for ")
    assert details["kubeadm"]["detail"] == KUBERNETES
    assert "pci=realloc pci=nocrs" in booted
