"""Every operation once at least, both directions checked against the vendor's file."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.support import vendor
from tests.support.simulator import Simulator
from vcosim.description import shipped

BE = "be-mac-dc01-001"
NL = "nl-rmd-dc01-001"


class Tourist:
    """Calls the API and checks each request and each answer."""

    def __init__(self, simulator: Simulator) -> None:
        self._document = vendor.description()
        self._http = httpx2.Client(base_url=simulator.url, headers=simulator.headers)
        self.customer = f"/customers/{simulator.customer_id}"
        self.seen: set[str] = set()

    def close(self) -> None:
        self._http.close()

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        status: int = 200,
        **query: str | int,
    ) -> Any:  # noqa: ANN401 - decoded JSON
        mine = path.startswith(("/cloudspaces", "/locations/", "/recycle-bin"))
        full = self.customer + path if mine else path
        texts = {name: str(one) for name, one in query.items()}
        route = vendor.check_request(self._document, method, full, texts, body)
        sent: dict[str, Any] = {} if body is None else {"json": body}
        if raw is not None:
            sent = {"content": raw, "headers": {"Content-Type": "application/octet-stream"}}
        answer = self._http.request(method, full, params=texts, **sent)
        assert answer.status_code == status, answer.text
        content = answer.json() if answer.content else None
        vendor.check_answer(self._document, method, route, status, content)
        self.seen.add(f"{method} {route}")
        return content


@pytest.fixture
def tour(simulator: Simulator) -> Iterator[Tourist]:
    tourist = Tourist(simulator)
    yield tourist
    tourist.close()
    breaches = simulator.control.breaches()
    assert not breaches, breaches


def test_every_operation_answers_as_described(tour: Tourist) -> None:
    """One walk through the whole cloud, from an empty account and back to it."""
    _identity(tour)
    _images(tour)
    space, other = _cloudspaces(tour)
    vm = _machine(tour, space)
    _notes(tour, f"{space}")
    _notes(tour, f"{space}/vms/{vm}")
    _groups(tour, space, vm)
    _ingress(tour, space)
    _forwards(tour, space, vm)
    _connections(tour, space, other)
    _gpus(tour, space, vm)
    _guest(tour, f"{space}/vms/{vm}")
    _ends(tour, space, vm)
    assert tour.seen == set(shipped().operations)


def _identity(tour: Tourist) -> None:
    assert tour("GET", "/me")["customers"][0]["customer_id"] == "demo_1"
    assert tour("GET", "/me/jwt").count(".") == 2
    assert [one["name"] for one in tour("GET", "/locations")["result"]] == [BE, NL]
    listed = tour("GET", f"{tour.customer}/locations")["locations"]
    assert [one["location"] for one in listed] == [BE, NL]
    assert tour("GET", f"/locations/{BE}") == {"location": BE, "storage_only": False}
    tour("GET", f"/locations/{BE}/capacity")
    networks = tour("GET", f"/locations/{BE}/external-networks")["result"]
    assert [one["public"] for one in networks] == [True, False]
    tour("GET", f"/locations/{BE}/external-networks/11")
    assert tour("GET", f"/locations/{BE}/external-networks/11/ip-addresses")["ip_addresses"]


def _images(tour: Tourist) -> None:
    images = f"/locations/{BE}/vm-images"
    assert len(tour("GET", images)["result"]) == 3
    kind: dict[str, Any] = {"boot_type": "uefi", "os_type": "Linux", "os_name": "Linux - other"}
    size: dict[str, Any] = {"memory": 512, "boot_disk_size": 5}
    made = tour("POST", images, name="by-url", url="https://x.invalid/a.qcow2", **kind, **size)
    assert tour("GET", f"{images}/{made['image_id']}")["boot_type"] == "uefi"
    upload = tour("POST", f"{images}/upload-vm-image", file_name="a.qcow2")
    where = f"{images}/{upload['upload_id']}"
    parts = [
        {
            "part_number": number,
            "etag": tour(
                "PUT",
                f"{where}/upload-part/{number}",
                raw=b"bytes" * number,
                object_name=upload["object_name"],
            )["etag"],
        }
        for number in (1, 2)
    ]
    finish = {"object_name": upload["object_name"], "uploaded_parts": parts}
    tour("POST", f"{where}/finish-image-upload", finish, name="by-parts", **kind, **size)
    tour("DELETE", f"{images}/{made['image_id']}")
    assert tour("GET", "/recycle-bin")["result"]["images"][0]["image_name"] == "by-url"
    tour("PUT", f"{images}/{made['image_id']}/restore")
    tour("DELETE", f"{images}/{made['image_id']}", permanently="true")


def _cloudspaces(tour: Tourist) -> tuple[str, str]:
    public = {"private": False, "external_network_id": 11}
    one = tour("POST", "/cloudspaces", {"name": "one", "location": BE, "firewall": public})
    two = {"name": "two", "location": NL, "private_network": "10.9.0.0/24"}
    other = tour("POST", "/cloudspaces", {**two, "firewall": {"private": False}})
    space = f"/cloudspaces/{one['cloudspace_id']}"
    tour("PUT", f"{space}/name", name="uno")
    assert tour("GET", space)["status"] == "DEPLOYED"
    assert [x["name"] for x in tour("GET", "/cloudspaces", locations=BE)["result"]] == ["uno"]
    assert tour("GET", f"{space}/available-ip-addresses")["ip_addresses"][0] == "192.168.103.2"
    added = tour(
        "POST",
        f"{space}/external-networks",
        external_network_id="11",
        external_network_type="external",
    )
    assert len(tour("GET", f"{space}/external-networks")["result"]) == 2
    tour(
        "DELETE",
        f"{space}/external-networks",
        external_network_id="11",
        external_network_ip=added["external_network_ip"],
    )
    return space, other["cloudspace_id"]


def _machine(tour: Tourist, space: str) -> int:
    vm_id: int = tour(
        "POST",
        f"{space}/vms",
        {"userdata": {"hostname": "one"}},
        name="one",
        description="first",
        vcpus=2,
        memory=2048,
        image_id=201,
        disk_size=20,
        data_disks="10,20",
        start_vm="true",
        enable_vm_agent="true",
    )["vm_id"]
    vm = f"{space}/vms/{vm_id}"
    assert tour("GET", vm)["status"] == "RUNNING"
    assert tour("GET", f"{space}/vms")["result"][0]["name"] == "one"
    tour("POST", f"{vm}/reboot")
    tour("POST", f"{vm}/reset")
    tour("PUT", f"{vm}/name", name="uno")
    tour("PUT", f"{vm}/description", description="the first")
    return vm_id


def _notes(tour: Tourist, owner: str) -> None:
    tour("POST", f"{owner}/notes", {"title": "a", "content": "b"})
    note = tour("GET", f"{owner}/notes")["result"][0]["id"]
    tour("PUT", f"{owner}/notes/{note}", {"title": "a", "content": "c"})
    assert tour("GET", f"{owner}/notes")["result"][0]["content"] == "c"
    tour("DELETE", f"{owner}/notes/{note}")


def _groups(tour: Tourist, space: str, vm: int) -> None:
    groups = f"{space}/anti-affinity-groups"
    tour("POST", groups, spread=-1, group_id="apart")
    assert tour("GET", groups)["result"][0]["status"] == "INCOMPLETE"
    tour("PUT", f"{groups}/apart", spread=2)
    assert tour("GET", f"{groups}/apart")["spread"] == 2
    tour("POST", f"{groups}/apart/vms", vm_id=vm)
    assert tour("GET", f"{groups}/apart/vms")["vms"] == [{"vm_id": vm, "status": "RUNNING"}]
    tour("DELETE", f"{groups}/apart/vms/{vm}")
    tour("DELETE", f"{groups}/apart")


def _ingress(tour: Tourist, space: str) -> None:
    pools, balancers = f"{space}/ingress/server-pools", f"{space}/ingress/load-balancers"
    pool = tour("POST", pools, name="api", description="control plane")["id"]
    host = tour("POST", f"{pools}/{pool}/hosts", address="192.168.103.2")["host_id"]
    assert len(tour("GET", f"{pools}/{pool}/hosts")["result"]) == 1
    tour("PUT", f"{pools}/{pool}", name="api2")
    assert tour("GET", f"{pools}/{pool}")["name"] == "api2"
    assert tour("GET", pools)["result"][0]["serverpool_id"] == pool
    wanted = {
        "name": "api",
        "type": "TCP",
        "front_end": {"port": 6443},
        "back_end": {"serverpool_id": pool, "target_port": 6443},
    }
    balancer = tour("POST", balancers, wanted)["id"]
    assert tour("GET", balancers)["result"][0]["serverpool_name"] == "api2"
    tour("PUT", f"{balancers}/{balancer}", {**wanted, "description": "kube-apiserver"})
    assert tour("GET", f"{balancers}/{balancer}")["description"] == "kube-apiserver"
    tour("DELETE", f"{balancers}/{balancer}")
    tour("DELETE", f"{pools}/{pool}/hosts/{host}")
    tour("DELETE", f"{pools}/{pool}")


def _forwards(tour: Tourist, space: str, vm: int) -> None:
    forwards = f"{space}/portforwards"
    ssh: dict[str, Any] = {"local_port": 22, "public_port": 2222, "protocol": "tcp", "vm_id": vm}
    first = tour("POST", forwards, **ssh)["portforward_id"]
    tour("POST", forwards, **{**ssh, "public_port": 2223})
    tour("PUT", f"{forwards}/{first}", **{**ssh, "public_port": 2224})
    again = tour("GET", forwards)["result"]
    assert first not in [one["portforward_id"] for one in again]
    assert tour("GET", f"{forwards}/{again[0]['portforward_id']}")["vm_id"] == vm
    left = tour("DELETE", f"{forwards}/{again[0]['portforward_id']}")["result"]
    assert [one["public_port"] for one in left] == [2224]


def _connections(tour: Tourist, space: str, other: str) -> None:
    mine = tour("GET", space)["external_network_ip"]
    theirs = tour("GET", f"/cloudspaces/{other}")["external_network_ip"]
    ends: dict[str, Any] = {"local_cloudspace_ip": mine, "remote_cloudspace_ip": theirs}
    connections = f"{space}/connected-cloudspaces"
    tour("POST", connections, status=201, connected_cloudspace_id=other, **ends)
    assert tour("GET", connections)["result"][0]["name"] == "two"
    assert tour("GET", f"{connections}/{other}") == {"status": "CONNECTED"}
    tour("DELETE", f"{connections}/{other}", status=204, **ends)


def _gpus(tour: Tourist, space: str, vm_id: int) -> None:
    cards = tour("GET", f"/locations/{BE}/gpus")["result"]
    vm, vgpus = f"{space}/vms/{vm_id}", f"/locations/{BE}/vgpus"
    gpu = f"/locations/{BE}/gpus/{cards[0]['id']}"
    one = tour("POST", gpu, {"vgpu_name": "one"})["vgpu_id"]
    tour("POST", f"{vm}/stop", force="false")
    tour("POST", f"{vm}/vgpus/{one}")
    two = tour("POST", f"{vm}/gpus/{cards[1]['id']}", {"vgpu_name": "two"})["vgpu_id"]
    listed = tour("GET", vgpus, limit=0)
    assert [x["virtual_machine"]["id"] for x in listed["data"]] == [vm_id, vm_id]
    assert [x["reference_id"] for x in tour("GET", vm)["devices"]] == [one, two]
    tour("DELETE", f"{vm}/vgpus/{one}")
    tour("DELETE", f"{vgpus}/{one}")
    assert tour("GET", "/recycle-bin")["result"]["vgpus"][0]["vgpu_id"] == one
    tour("POST", f"{vgpus}/{one}")
    tour("DELETE", f"{vgpus}/{one}", permanently="true")
    hours: dict[str, Any] = {"start": 0, "end": 4_000_000_000}
    assert tour("GET", f"{vm}/consumption", **hours)["vm"]["consumption"]["vgu"] > 0
    assert tour("GET", f"{space}/consumption", **hours)["cloudspace"]["vms"]
    assert tour("GET", f"/locations/{BE}/consumption", **hours)["unassigned_vgpus"]
    tour("POST", f"{vm}/start")


def _guest(tour: Tourist, vm: str) -> None:
    tour("PUT", f"{vm}/agent", {"enabled": True})
    statuses = (tour("GET", f"{vm}/agent")["status"] for _ in range(1000))
    assert "RUNNING" in statuses
    content = base64.b64encode(b"hello").decode()
    tour("POST", f"{vm}/file", {"filepath": "/a", "content": content, "append": False})
    assert tour("GET", f"{vm}/file", filepath="/a", size=100)["result"] == content
    assert tour("POST", f"{vm}/exec", {"command": "cat", "args": ["/a"]})["result"] == "hello"
    tour("DELETE", f"{vm}/file", filepath="/a")


def _ends(tour: Tourist, space: str, vm: int) -> None:
    tour("DELETE", f"{space}/vms/{vm}", detach_gpu="false")
    tour("PUT", f"{space}/vms/{vm}/restore", reason="wanted")
    assert tour("GET", f"{space}/vms/{vm}")["status"] == "HALTED"
    tour("DELETE", f"{space}/vms/{vm}", permanently="true", detach_gpu="false")
    tour("DELETE", space, reason="done")
    assert tour("GET", "/cloudspaces", only_deleted="true")["result"][0]["status"] == "DELETED"
    tour("PUT", f"{space}/restore")
    tour("DELETE", space, permanently="true")
