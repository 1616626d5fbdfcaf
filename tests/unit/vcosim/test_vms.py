"""Virtual machines over time."""

import pytest
import yaml

from tests.unit.vcosim.portal import BE, NL, Portal
from vcosim.operations.vm_create import guest_userdata
from vcosim.records import Vm


async def test_a_started_vm_passes_through_its_states(portal: Portal) -> None:
    """DEPLOYING, STARTING, RUNNING, each for the time its switch says."""
    space = await portal.cloudspace()
    vm_id = (await portal.ok("POST", f"{space}/vms", **creation(start_vm=True)))["vm_id"]
    vm = f"{space}/vms/{vm_id}"
    assert await portal.status(vm) == "DEPLOYING"
    portal.advance(0.5)
    assert await portal.status(vm) == "STARTING"
    portal.advance(0.3)
    found = await portal.ok("GET", vm)
    assert (found["status"], found["agent_status"]) == ("RUNNING", "NOT_RUNNING")
    portal.advance(0.5)
    assert (await portal.ok("GET", f"{vm}/agent"))["status"] == "RUNNING"


def creation(**changed: object) -> dict[str, object]:
    return {
        "name": "a",
        "description": "",
        "vcpus": 1,
        "memory": 1024,
        "image_id": 201,
        "disk_size": 10,
    } | changed


async def test_one_action_at_a_time(portal: Portal) -> None:
    """While a VM moves every other action is refused, with the switch's status."""
    vm = await portal.vm(await portal.cloudspace())
    await portal.ok("POST", f"{vm}/start")
    for method, path in (("POST", "/stop"), ("POST", "/reset"), ("DELETE", "")):
        message = await portal.refused(409, method, vm + path)
        assert "STARTING" in message
    portal.simulation.set_switches({"busy_status": 400})
    await portal.refused(400, "POST", f"{vm}/stop")
    portal.advance()
    await portal.ok("POST", f"{vm}/stop")


async def test_power_actions_are_idempotent_where_that_is_harmless(portal: Portal) -> None:
    """Starting what runs and stopping what is halted succeed; rebooting what is halted does not."""
    vm = await portal.vm(await portal.cloudspace())
    await portal.ok("POST", f"{vm}/stop")
    await portal.refused(409, "POST", f"{vm}/reboot")
    await portal.ok("POST", f"{vm}/start")
    portal.advance()
    await portal.ok("POST", f"{vm}/start")
    assert await portal.status(vm) == "RUNNING"


REFUSALS = [
    ({"boot_type": "uefi"}, 400, "Selected boot type can not be different from image boot type"),
    ({"image_id": 202}, 400, "Selected boot type can not be different from image boot type"),
    ({"image_id": 999}, 404, "Image with id 999 not found"),
    ({"image_id": 301}, 404, "Image with id 301 not found"),
    ({"disk_size": 9}, 400, "disk_size must be from 10"),
    ({"memory": 1025}, 400, "even number"),
    ({"memory": 256}, 400, "memory must be"),
    ({"vcpus": 65}, 400, "vcpus must be from 1 to 64"),
    ({"name": " "}, 400, "cannot be empty"),
    ({"private_ip": "10.0.0.1"}, 400, "not available in 192.168.103.0/24"),
    ({"data_disks": "0"}, 400, "data_disks"),
    ({"cdrom_id": 4}, 404, "No cdrom_id 4"),
    ({"user_data": "- a"}, 400, "Userdata should be a dictionary"),
    ({"user_data": "{"}, 400, "Userdata is not a valid yaml string"),
]


@pytest.mark.parametrize(("changed", "status", "message"), REFUSALS)
async def test_creation_is_refused_with_a_reason(
    portal: Portal, changed: dict[str, object], status: int, message: str
) -> None:
    """A refusal says why, and leaves nothing behind."""
    space = await portal.cloudspace()
    assert message in await portal.refused(status, "POST", f"{space}/vms", **creation(**changed))
    assert (await portal.ok("GET", f"{space}/vms"))["result"] == []


async def test_an_image_id_or_another_source_must_be_given(portal: Portal) -> None:
    """Without any boot source there is nothing to make a VM from."""
    space = await portal.cloudspace()
    wanted = {name: one for name, one in creation().items() if name != "image_id"}
    assert "image_id" in await portal.refused(400, "POST", f"{space}/vms", **wanted)


async def test_names_are_taken_until_the_end(portal: Portal) -> None:
    """A VM in the recycle bin keeps its name, unless the switch says otherwise."""
    space = await portal.cloudspace()
    vm = await portal.vm(space, "a")
    message = await portal.refused(409, "POST", f"{space}/vms", **creation())
    assert message == "Selected name already exists: a"
    await portal.ok("DELETE", vm)
    portal.advance()
    await portal.refused(404, "GET", vm)
    await portal.refused(409, "POST", f"{space}/vms", **creation())
    portal.simulation.set_switches({"bin_reserves_names": False})
    await portal.ok("POST", f"{space}/vms", **creation())
    portal.advance()
    await portal.refused(409, "PUT", f"{vm}/restore", reason="back")


async def test_a_restored_vm_is_halted_and_has_an_address(portal: Portal) -> None:
    """Back from the bin: HALTED; its old address went to somebody else meanwhile."""
    space = await portal.cloudspace()
    first = await portal.vm(space, "a")
    await portal.ok("DELETE", first)
    portal.advance()
    second = await portal.vm(space, "b")
    await portal.ok("PUT", f"{first}/restore", reason="back")
    assert await portal.status(first) == "RESTORING"
    portal.advance()
    found = [await portal.ok("GET", one) for one in (first, second)]
    assert found[0]["status"] == "HALTED"
    addresses = [one["network_interfaces"][0]["ip_address"] for one in found]
    assert addresses == ["192.168.103.3", "192.168.103.2"]
    await portal.refused(400, "PUT", f"{first}/restore", reason="again")


async def test_deleting_twice_is_no_error_but_destroying_twice_is(portal: Portal) -> None:
    """A binned VM may be deleted again; a destroyed one is not found."""
    vm = await portal.vm(await portal.cloudspace())
    for _ in range(2):
        await portal.ok("DELETE", vm)
        portal.advance()
    await portal.ok("DELETE", vm, permanently=True)
    portal.advance()
    await portal.refused(404, "DELETE", vm, permanently=True)


async def test_lists_and_details_differ_as_the_vendors_do(portal: Portal) -> None:
    """In lists the cloudspace id is a number and disks are ids; deleted ones only on request."""
    space = await portal.cloudspace()
    vm = await portal.vm(space, data_disks="5,6")
    (item,) = (await portal.ok("GET", f"{space}/vms"))["result"]
    detail = await portal.ok("GET", vm)
    assert item["cloudspace_id"] == 1301
    assert detail["cloudspace_id"] == space.rpartition("/")[2]
    assert item["disks"] == [one["disk_id"] for one in detail["disks"]]
    assert [one["disk_type"] for one in detail["disks"]] == ["BOOT", "DATA", "DATA"]
    assert "os_accounts" not in item
    await portal.ok("DELETE", vm)
    portal.advance()
    assert (await portal.ok("GET", f"{space}/vms"))["result"] == []
    for flag in ("include_deleted", "only_deleted"):
        (gone,) = (await portal.ok("GET", f"{space}/vms", **{flag: True}))["result"]
        assert gone["status"] == "DELETED"
        assert gone["deletion_time"]


async def test_ids_count_per_location(portal: Portal) -> None:
    """The first VM of each location has the same number: ids are not global."""
    here, there = await portal.cloudspace("a", BE), await portal.cloudspace("b", NL)
    one = await portal.vm(here)
    other = await portal.vm(there, image_id=301)
    assert one.rpartition("/")[2] == other.rpartition("/")[2]


async def test_what_the_guest_reads_is_what_was_given(portal: Portal) -> None:
    """A body object becomes cloud-config; a query text stays as it is; the body wins."""
    space = await portal.cloudspace()
    given = {"runcmd": ["true"], "write_files": [{"path": "/a", "content": "ü\n"}]}
    await portal.vm(space, "body", {"userdata": given}, user_data="a: 1")
    await portal.vm(space, "query", user_data="#cloud-config\nb: 2\n")
    await portal.vm(space, "none")
    guests = [guest_userdata(vm) for vm in portal.simulation.store.find(Vm)]
    assert [one["source"] for one in guests] == ["body", "query", "none"]
    assert guests[0]["userdata"] == given
    assert yaml.safe_load(str(guests[0]["text"])) == given
    assert str(guests[0]["text"]).startswith("#cloud-config\n")
    assert guests[1]["text"] == "#cloud-config\nb: 2\n"
    assert guests[2]["text"] == ""


async def test_any_user_data_text_passes_where_the_switch_allows(portal: Portal) -> None:
    """The platform may take a bare key; then it is stored as it came."""
    portal.simulation.set_switches({"user_data_mapping": False})
    await portal.vm(await portal.cloudspace(), user_data="ssh-ed25519 AAAA")
    (vm,) = portal.simulation.store.find(Vm)
    assert vm.userdata_text == "ssh-ed25519 AAAA"


async def test_the_agent_must_run(portal: Portal) -> None:
    """Commands and files need a running agent; the refusal names its status."""
    vm = await portal.vm(await portal.cloudspace())
    message = await portal.refused(400, "POST", f"{vm}/exec", {"command": "hostname"})
    assert message == "VM agent must be enabled and running. Agent status: NOT_RUNNING"
    await portal.ok("POST", f"{vm}/start")
    portal.advance()
    assert await portal.ok("POST", f"{vm}/exec", {"command": "/bin/hostname"}) == {"result": "vm\n"}
    for text in ("aGVs", "bG8="):
        await portal.ok("POST", f"{vm}/file", {"filepath": "/a", "content": text, "append": True})
    read = await portal.ok("GET", f"{vm}/file", filepath="/a", size=3, seek=1)
    assert read == {"result": "ZWxs"}
    await portal.ok("DELETE", f"{vm}/file", filepath="/a")
    await portal.refused(404, "GET", f"{vm}/file", filepath="/a", size=1)
    wrong = {"filepath": "/a", "content": "%%", "append": False}
    await portal.refused(400, "POST", f"{vm}/file", wrong)
    await portal.ok("PUT", f"{vm}/agent", {"enabled": False})
    await portal.refused(400, "GET", f"{vm}/file", filepath="/a", size=1)


async def test_deleting_a_vm_ends_its_port_forwards(portal: Portal) -> None:
    """Even into the recycle bin a VM takes no forward along."""
    space = await portal.cloudspace()
    vm = await portal.vm(space)
    key = int(vm.rpartition("/")[2])
    ssh = {"local_port": 22, "public_port": 22, "protocol": "tcp", "vm_id": key}
    await portal.ok("POST", f"{space}/portforwards", **ssh)
    await portal.ok("DELETE", vm)
    assert (await portal.ok("GET", f"{space}/portforwards"))["result"] == []
