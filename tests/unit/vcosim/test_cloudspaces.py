"""Cloudspaces, their networks, and what hangs on them."""

from typing import Any

import pytest

from tests.unit.vcosim.portal import BE, NL, C, L, Portal
from vcosim.world import parsed

SPACES = f"{C}/cloudspaces"
PUBLIC: dict[str, Any] = {"private": False}

REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"private_network": "192.168.1.0/33"}, 400, "Invalid private network"),
    ({"private_network": "192.168.1.5/24"}, 400, "host bits"),
    ({"private_network": "192.168.1.0/30"}, 400, "too small"),
    ({"location": "us-x"}, 400, "Location us-x does not exist"),
    ({"name": " "}, 400, "cannot be empty"),
    ({"firewall": PUBLIC | {"external_network_id": 99}}, 400, "External network with id 99"),
    ({"firewall": PUBLIC | {"external_network_id": 21}}, 400, "does not exist in be-mac"),
    ({"firewall": PUBLIC | {"parent_cloudspace_id": "bm9uZTox"}}, 400, "not found"),
    (
        {"firewall": PUBLIC | {"external_network_id": 11, "parent_cloudspace_id": "x"}},
        400,
        "Only one of",
    ),
    ({"firewall": PUBLIC | {"custom": {"image_id": 1}}}, 400, "Custom firewalls"),
]


@pytest.mark.parametrize(("changed", "status", "message"), REFUSED)
async def test_creation_is_refused_with_a_reason(
    portal: Portal, changed: dict[str, Any], status: int, message: str
) -> None:
    """Nothing is made by a request that makes no sense."""
    body = {"name": "a", "location": BE, "firewall": PUBLIC} | changed
    assert message in await portal.refused(status, "POST", SPACES, body)
    assert (await portal.ok("GET", SPACES))["result"] == []


async def test_a_cloudspace_deploys_with_an_address(portal: Portal) -> None:
    """DEPLOYING, then DEPLOYED, by default in the first public network; custom may be {}."""
    body = {"name": "a", "location": BE, "firewall": PUBLIC | {"custom": {}}}
    key = (await portal.ok("POST", SPACES, body))["cloudspace_id"]
    space = f"{SPACES}/{key}"
    assert await portal.status(space) == "DEPLOYING"
    await portal.refused(400, "POST", f"{space}/ingress/server-pools", name="p")
    assert "being deployed" in await portal.refused(400, "DELETE", space)
    portal.advance()
    found = await portal.ok("GET", space)
    assert found["status"] == "DEPLOYED"
    assert found["external_network_ip"] == "203.0.113.2"
    (item,) = (await portal.ok("GET", SPACES))["result"]
    assert item["external_networks"] == [
        [{"id": 11, "metric": 100, "ip": "203.0.113.2/24", "type": "external"}]
    ]


async def test_kinds_of_cloudspaces(portal: Portal) -> None:
    """Private ones have no address, nested ones one in their parent, which they keep alive."""
    private = await portal.cloudspace("private", firewall={"private": True})
    found = await portal.ok("GET", private)
    assert (found["cloudspace_mode"], found["external_network_ip"]) == ("private", None)
    parent = await portal.cloudspace("parent", private_network="10.0.0.0/24")
    below = {"private": False, "parent_cloudspace_id": parent.rpartition("/")[2]}
    nested = await portal.cloudspace("nested", firewall=below)
    found = await portal.ok("GET", nested)
    assert (found["cloudspace_mode"], found["external_network_ip"]) == ("nested", "10.0.0.2")
    assert "nested CloudSpaces" in await portal.refused(409, "DELETE", parent)
    vm = await portal.vm(parent)
    shown = (await portal.ok("GET", vm))["network_interfaces"][0]["ip_address"]
    assert shown == "10.0.0.3"


async def test_names_and_addresses_stay_taken_in_the_bin(portal: Portal) -> None:
    """A binned cloudspace keeps both; purging gives both back."""
    space = await portal.cloudspace("a")
    await portal.ok("DELETE", space)
    portal.advance()
    assert await portal.status(space) == "DELETED"
    body = {"name": "a", "location": NL, "firewall": PUBLIC}
    message = await portal.refused(409, "POST", SPACES, body)
    assert message == "Cloud Space with name a already exists."
    free = (await portal.ok("GET", f"{L}/external-networks/11/ip-addresses"))["ip_addresses"]
    assert "203.0.113.2" not in free
    await portal.ok("DELETE", space, permanently=True)
    portal.advance()
    await portal.refused(404, "GET", space)
    free = (await portal.ok("GET", f"{L}/external-networks/11/ip-addresses"))["ip_addresses"]
    assert free[0] == "203.0.113.2"
    await portal.ok("POST", SPACES, body)


async def test_a_cloudspace_with_vms_cannot_be_deleted(portal: Portal) -> None:
    """VMs in the bin do not count; a permanent deletion purges them."""
    space = await portal.cloudspace()
    vm = await portal.vm(space)
    message = await portal.refused(409, "DELETE", space, permanently=True)
    assert message == "In order to delete a CloudSpace it can not contain Machines."
    await portal.ok("DELETE", vm)
    await portal.refused(409, "DELETE", space)
    portal.advance()
    await portal.ok("DELETE", space)
    portal.advance()
    await portal.refused(400, "PUT", f"{vm}/restore", reason="no place to go")
    await portal.ok("PUT", f"{space}/restore")
    portal.advance()
    await portal.ok("DELETE", space, permanently=True)
    portal.advance()
    assert (await portal.ok("GET", f"{C}/recycle-bin"))["result"]["vms"] == []


async def test_addresses_run_out(portal: Portal) -> None:
    """A network of one address serves one cloudspace: 503 for the next, 409 for a wish."""
    small = {
        "name": BE,
        "external_networks": [
            {
                "external_network_id": 13,
                "name": "small",
                "network": "192.0.2.0/30",
                "gateway": "192.0.2.1",
            }
        ],
    }
    portal.simulation.seed(parsed({"locations": [small]}))
    firewall = PUBLIC | {"external_network_id": 13}
    space = await portal.cloudspace("a", firewall=firewall)
    body = {"name": "b", "location": BE, "firewall": firewall}
    assert "No free external IP" in await portal.refused(503, "POST", SPACES, body)
    wish = {"external_network_id": "11", "external_network_type": "external"}
    await portal.ok("POST", f"{space}/external-networks", external_network_ip="203.0.113.9", **wish)
    assert "not available" in await portal.refused(
        409, "POST", f"{space}/external-networks", external_network_ip="203.0.113.9", **wish
    )


async def test_a_full_cloudspace_takes_no_more_vms(portal: Portal) -> None:
    """As many VMs as the network has addresses, less five."""
    space = await portal.cloudspace(private_network="10.0.0.0/29")
    for number in range(3):
        await portal.vm(space, f"vm-{number}")
    query = {"name": "x", "description": "", "vcpus": 1, "memory": 512, "image_id": 201}
    assert "no room" in await portal.refused(400, "POST", f"{space}/vms", disk_size=10, **query)


def balancer(pool: str, **front: object) -> dict[str, Any]:
    return {
        "name": "api",
        "type": "TCP",
        "front_end": {"port": 6443} | front,
        "back_end": {"serverpool_id": pool, "target_port": 6443},
    }


async def test_one_listener_per_port(portal: Portal) -> None:
    """Forwards and balancers share the ports of an address; UDP is another world."""
    space = await portal.cloudspace()
    key = int((await portal.vm(space)).rpartition("/")[2])
    pool = (await portal.ok("POST", f"{space}/ingress/server-pools", name="p"))["id"]
    balancers = f"{space}/ingress/load-balancers"
    await portal.ok("POST", balancers, balancer(pool))
    message = await portal.refused(409, "POST", balancers, balancer(pool))
    assert message.endswith("with port 6443 already exists")
    forward = {"local_port": 22, "public_port": 6443, "protocol": "tcp", "vm_id": key}
    await portal.refused(409, "POST", f"{space}/portforwards", **forward)
    await portal.ok("POST", f"{space}/portforwards", **forward | {"protocol": "udp"})
    wide = forward | {"public_port": 6000, "till_public_port": 7000}
    await portal.refused(409, "POST", f"{space}/portforwards", **wide)
    await portal.refused(
        400, "POST", f"{space}/portforwards", **forward | {"public_ip": "203.0.113.77"}
    )
    await portal.refused(400, "POST", balancers, balancer(pool, ip_address="1.2.3.4"))
    await portal.refused(400, "POST", balancers, balancer(pool, port=0))
    await portal.refused(404, "POST", balancers, balancer("unknown", port=1))
    await portal.refused(400, "POST", balancers, balancer(pool, port=1) | {"type": "HTTP"})


async def test_pools_in_use_and_locked_things_stay(portal: Portal) -> None:
    """A pool goes after its balancer, unless the switch allows more; a lock holds both."""
    space = await portal.cloudspace()
    pools, balancers = f"{space}/ingress/server-pools", f"{space}/ingress/load-balancers"
    pool = (await portal.ok("POST", pools, name="p"))["id"]
    one = (await portal.ok("POST", balancers, balancer(pool) | {"locked": True}))["id"]
    assert "used by load balancer api" in await portal.refused(409, "DELETE", f"{pools}/{pool}")
    assert "locked" in await portal.refused(409, "DELETE", f"{balancers}/{one}")
    await portal.ok("PUT", f"{balancers}/{one}", balancer(pool))
    portal.simulation.set_switches({"pool_in_use": "allow"})
    await portal.ok("PUT", f"{pools}/{pool}", locked=True)
    await portal.refused(409, "POST", f"{pools}/{pool}/hosts", address="10.0.0.1")
    await portal.ok("PUT", f"{pools}/{pool}", locked=False)
    await portal.ok("DELETE", f"{pools}/{pool}")
    assert (await portal.ok("GET", balancers))["result"][0]["serverpool_name"] is None


async def test_ingress_names_may_repeat_unless_the_switch_forbids_it(portal: Portal) -> None:
    """So a lost answer can leave two pools of one name behind."""
    pools = f"{await portal.cloudspace()}/ingress/server-pools"
    for _ in range(2):
        await portal.ok("POST", pools, name="same")
    portal.simulation.set_switches({"duplicate_ingress_names": False})
    await portal.refused(409, "POST", pools, name="same")


async def test_cloudspaces_connect_over_their_addresses(portal: Portal) -> None:
    """Both sides list the connection; overlapping networks cannot be connected."""
    one = await portal.cloudspace("one")
    two = await portal.cloudspace("two", NL, private_network="10.0.0.0/24")
    same = await portal.cloudspace("same", NL)
    keys = {path: path.rpartition("/")[2] for path in (one, two, same)}
    address = {path: (await portal.ok("GET", path))["external_network_ip"] for path in keys}

    def ends(here: str, there: str) -> dict[str, str]:
        return {
            "connected_cloudspace_id": keys[there],
            "local_cloudspace_ip": address[here],
            "remote_cloudspace_ip": address[there],
        }

    connections = f"{one}/connected-cloudspaces"
    assert "overlap" in await portal.refused(409, "POST", connections, **ends(one, same))
    await portal.ok("POST", connections, **ends(one, two))
    await portal.refused(409, "POST", connections, **ends(one, two))
    (seen,) = (await portal.ok("GET", f"{two}/connected-cloudspaces"))["result"]
    assert (seen["name"], seen["remote_private_network"]) == ("one", "192.168.103.0/24")
    wrong = {"local_cloudspace_ip": address[two], "remote_cloudspace_ip": address[one]}
    await portal.refused(403, "DELETE", f"{connections}/{keys[two]}", **wrong)


async def test_images_come_by_parts_and_leave_when_unused(portal: Portal) -> None:
    """Wrong etags are noticed; public images stay; a used one cannot be purged."""
    images = f"{L}/vm-images"
    upload = await portal.ok("POST", f"{images}/upload-vm-image", file_name="a")
    where, name = f"{images}/{upload['upload_id']}", upload["object_name"]
    binary = {"Content-Type": "application/octet-stream"}
    sent = await portal.http.put(
        f"{where}/upload-part/1", params={"object_name": name}, content=b"x", headers=binary
    )
    etag = sent.headers["ETag"]
    assert sent.json()["etag"] == etag.strip('"')
    query = {
        "name": "mine",
        "memory": 512,
        "boot_disk_size": 5,
        "boot_type": "bios",
        "os_type": "Linux",
        "os_name": "Linux - other",
    }

    def parts(etag: str) -> dict[str, Any]:
        return {"object_name": name, "uploaded_parts": [{"part_number": 1, "etag": etag}]}

    finish = f"{where}/finish-image-upload"
    assert "was not uploaded" in await portal.refused(400, "POST", finish, parts("y"), **query)
    key = (await portal.ok("POST", finish, parts(etag), **query))["image_id"]
    space = await portal.cloudspace()
    assert await portal.status(f"{images}/{key}") == "CREATED"
    vm = await portal.vm(space, image_id=key)
    await portal.refused(403, "DELETE", f"{images}/201", permanently=True)
    assert "used by" in await portal.refused(409, "DELETE", f"{images}/{key}", permanently=True)
    await portal.ok("DELETE", vm, permanently=True)
    portal.advance()
    await portal.ok("DELETE", f"{images}/{key}", permanently=True)
    await portal.refused(404, "GET", f"{images}/{key}")


async def test_an_image_being_imported_cannot_be_used(portal: Portal) -> None:
    """CREATING for its time; with the switch the creation does not even tell the id."""
    space = await portal.cloudspace()
    query = {
        "name": "mine",
        "url": "https://example.invalid/a",
        "memory": 512,
        "boot_disk_size": 5,
        "boot_type": "bios",
        "os_type": "Linux",
        "os_name": "Linux - other",
    }
    portal.simulation.set_switches({"image_create_reply": "none", "no_schema_body": "null"})
    assert await portal.ok("POST", f"{L}/vm-images", **query) is None
    found = (await portal.ok("GET", f"{L}/vm-images"))["result"][-1]
    assert (found["name"], found["status"]) == ("mine", "CREATING")
    vm = {"name": "a", "description": "", "vcpus": 1, "memory": 512, "disk_size": 5}
    assert "CREATING" in await portal.refused(
        400, "POST", f"{space}/vms", image_id=found["image_id"], **vm
    )
