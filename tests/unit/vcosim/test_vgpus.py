"""Reservations: capacity, attachment, the recycle bin, and what all of it costs."""

from typing import Any

import pytest

from tests.unit.vcosim.portal import BE, C, L, Portal
from vcosim.records import Card

ALL_IN_BE = 8


async def test_the_stock_world_has_the_sample_type(portal: Portal) -> None:
    """Four A100 with their PCI addresses in the model, one instance each."""
    found = (await portal.ok("GET", f"{L}/gpus"))["result"]
    a100 = [one for one in found if f"{one['vendor']} {one['model']}".startswith("NVIDIA A100 ")]
    assert len(a100) == 4
    assert {one["available_instances"] for one in a100} == {1}
    assert all(one["model"].split(" ")[1].count(":") == 2 for one in a100)


@pytest.mark.parametrize("status", [400, 409, 503])
async def test_a_full_card_refuses_with_the_chosen_status(portal: Portal, status: int) -> None:
    """One instance per card: the second reservation finds no room."""
    portal.simulation.set_switches({"no_capacity_status": status})
    gpu = (await portal.gpus())[0]
    await portal.ok("POST", f"{L}/gpus/{gpu}", {"vgpu_name": "a"})
    message = await portal.refused(status, "POST", f"{L}/gpus/{gpu}", {"vgpu_name": "b"})
    assert "no free instance" in message
    assert portal.held() == 1
    await portal.refused(404, "POST", f"{L}/gpus/unknown", {"vgpu_name": "b"})


async def test_attaching_takes_time_and_keeps_both_busy(portal: Portal) -> None:
    """ATTACHING until the switch's time is over, then ASSIGNED and shown by the VM."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.reserve()
    assert (await portal.vgpu(key))["virtual_machine"] is None
    await portal.ok("POST", f"{vm}/vgpus/{key}")
    assert (await portal.vgpu(key))["status"] == "ATTACHING"
    assert await portal.status(vm) == "ATTACHING_GPU"
    await portal.refused(409, "POST", f"{vm}/start")
    await portal.refused(409, "DELETE", f"{L}/vgpus/{key}")
    portal.advance(0.2)
    found = await portal.vgpu(key)
    assert found["status"] == "ASSIGNED"
    assert found["virtual_machine"]["name"] == "vm"
    shown = await portal.ok("GET", vm)
    assert shown["status"] == "HALTED"
    assert [one["reference_id"] for one in shown["devices"]] == [key]
    assert "already attached" in await portal.refused(409, "POST", f"{vm}/vgpus/{key}")


async def test_a_running_vm_keeps_and_takes_no_gpu(portal: Portal) -> None:
    """Attach, detach and deletion of an attached vGPU need HALTED, unless the switch is off."""
    vm = await portal.vm(await portal.cloudspace())
    key, other = await portal.attached(vm), await portal.reserve()
    await portal.ok("POST", f"{vm}/start")
    portal.advance()
    for method, path in (
        ("POST", f"{vm}/vgpus/{other}"),
        ("DELETE", f"{vm}/vgpus/{key}"),
        ("DELETE", f"{L}/vgpus/{key}"),
    ):
        assert "RUNNING" in await portal.refused(409, method, path)
    portal.simulation.set_switches({"attach_needs_halted": False})
    await portal.ok("POST", f"{vm}/vgpus/{other}")
    portal.advance()
    await portal.ok("DELETE", f"{vm}/vgpus/{key}")
    portal.advance()
    assert await portal.status(vm) == "RUNNING"
    assert portal.held() == 2


async def test_a_detached_vgpu_is_still_held(portal: Portal) -> None:
    """Detaching ends nothing: the reservation stays, and so does its price."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.ok("DELETE", f"{vm}/vgpus/{key}")
    assert (await portal.vgpu(key))["status"] == "DETACHING"
    portal.advance()
    found = await portal.vgpu(key)
    assert (found["status"], found["virtual_machine"]) == ("CREATED", None)
    assert portal.held() == 1
    await portal.refused(400, "DELETE", f"{vm}/vgpus/{key}")


async def test_the_recycle_bin_holds_room_and_bills(portal: Portal) -> None:
    """A binned vGPU costs until it is deleted for good; from the bin it can come back."""
    key = await portal.reserve()
    before = len(await portal.gpus())
    await portal.ok("DELETE", f"{L}/vgpus/{key}")
    portal.advance()
    found = await portal.vgpu(key)
    assert found["status"] == "DELETED"
    assert found["deletion_time"] > 0
    assert (len(await portal.gpus()), portal.held()) == (before, 1)
    await portal.ok("DELETE", f"{L}/vgpus/{key}")
    await portal.ok("POST", f"{L}/vgpus/{key}")
    portal.advance()
    assert (await portal.vgpu(key))["status"] == "CREATED"
    await portal.refused(400, "POST", f"{L}/vgpus/{key}")
    await portal.ok("DELETE", f"{L}/vgpus/{key}", permanently=True)
    portal.advance()
    assert (len(await portal.gpus()), portal.held()) == (before + 1, 0)
    await portal.refused(404, "DELETE", f"{L}/vgpus/{key}", permanently=True)


async def test_a_binned_vgpu_cannot_be_attached(portal: Portal) -> None:
    """It must be restored first."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.reserve()
    await portal.ok("DELETE", f"{L}/vgpus/{key}")
    portal.advance()
    assert "recycle bin" in await portal.refused(400, "POST", f"{vm}/vgpus/{key}")


async def test_deletion_without_detach_is_refused_while_attached(portal: Portal) -> None:
    """detach=false protects an attached vGPU; detach=true, the default, takes it off."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.refused(409, "DELETE", f"{L}/vgpus/{key}", detach=False)
    await portal.ok("DELETE", f"{L}/vgpus/{key}", permanently=True)
    assert await portal.status(vm) == "DETACHING_GPU"
    portal.advance()
    assert (await portal.ok("GET", vm))["devices"] == []
    assert portal.held() == 0


async def test_detach_gpu_keeps_the_reservation(portal: Portal) -> None:
    """A VM deleted with detach_gpu leaves its vGPUs behind, unattached and billed."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.ok("DELETE", vm, permanently=True, detach_gpu=True)
    portal.advance()
    found = await portal.vgpu(key)
    assert (found["status"], found["virtual_machine"]) == ("CREATED", None)
    assert portal.held() == 1


OUTCOMES = [("bin", "DELETED", 1), ("keep", "CREATED", 1), ("release", None, 0)]


@pytest.mark.parametrize(("policy", "status", "held"), OUTCOMES)
async def test_without_detach_gpu_the_switch_decides(
    portal: Portal, policy: str, status: str | None, held: int
) -> None:
    """A VM goes to the bin with a vGPU attached: binned with it, kept, or released."""
    portal.simulation.set_switches({"delete_with_vgpu": policy})
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.ok("DELETE", vm)
    portal.advance()
    listed = (await portal.ok("GET", f"{L}/vgpus", include_deleted=True))["data"]
    assert [one["status"] for one in listed if one["vgpu_id"] == key] == (
        [status] if status else []
    )
    assert portal.held() == held


async def test_refusal_protects_a_vm_with_gpus(portal: Portal) -> None:
    """The fourth possibility: the platform refuses until the vGPUs are detached."""
    portal.simulation.set_switches({"delete_with_vgpu": "refuse"})
    vm = await portal.vm(await portal.cloudspace())
    await portal.attached(vm)
    assert "GPUs attached" in await portal.refused(400, "DELETE", vm)
    await portal.ok("DELETE", vm, detach_gpu=True)


async def test_a_vgpu_binned_with_its_vm_shares_its_fate(portal: Portal) -> None:
    """Restored with it, and destroyed with it."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.ok("DELETE", vm)
    portal.advance()
    await portal.ok("PUT", f"{vm}/restore", reason="back")
    portal.advance()
    assert (await portal.vgpu(key))["status"] == "ASSIGNED"
    await portal.ok("DELETE", vm)
    portal.advance()
    await portal.ok("DELETE", vm, permanently=True)
    portal.advance()
    assert portal.held() == 0


async def test_a_vgpu_can_be_saved_from_its_binned_vm(portal: Portal) -> None:
    """Restoring it alone cuts the tie; the VM's end is not its end any more."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.attached(vm)
    await portal.ok("DELETE", vm)
    portal.advance()
    await portal.ok("POST", f"{L}/vgpus/{key}")
    portal.advance()
    await portal.ok("DELETE", vm, permanently=True)
    portal.advance()
    assert (await portal.vgpu(key))["status"] == "CREATED"


async def test_purging_a_cloudspace_ends_the_vgpus_of_its_binned_vms(portal: Portal) -> None:
    """VM into the bin, cloudspace away for good: nothing is held."""
    space = await portal.cloudspace()
    vm = await portal.vm(space)
    await portal.attached(vm)
    await portal.ok("DELETE", vm)
    portal.advance()
    await portal.ok("DELETE", space, permanently=True)
    portal.advance()
    assert portal.held() == 0


async def test_a_vm_can_be_made_with_a_gpu(portal: Portal) -> None:
    """gpu_id and vgpu_name at creation reserve and attach; without room nothing is made."""
    space = await portal.cloudspace()
    gpu = (await portal.gpus())[0]
    wanted = {"gpu_id": gpu, "vgpu_name": "with-vm"}
    vm = await portal.vm(space, "a", wanted)
    (device,) = (await portal.ok("GET", vm))["devices"]
    found = await portal.vgpu(device["reference_id"])
    assert (found["vgpu_name"], found["status"]) == ("with-vm", "ASSIGNED")
    query = {"name": "b", "description": "", "vcpus": 1, "memory": 512, "image_id": 201}
    await portal.refused(409, "POST", f"{space}/vms", wanted, disk_size=10, **query)
    await portal.refused(400, "POST", f"{space}/vms", {"gpu_id": gpu}, disk_size=10, **query)
    assert len((await portal.ok("GET", f"{space}/vms"))["result"]) == 1
    assert portal.held() == 1


async def test_a_list_has_pages(portal: Portal) -> None:
    """Limit and start_after cut, 0 means all, a cap of the server wins over both."""
    keys = [await portal.reserve(f"gpu-{number}") for number in range(5)]

    async def page(**query: Any) -> tuple[list[str], dict[str, int]]:  # noqa: ANN401 - query
        found = await portal.ok("GET", f"{L}/vgpus", **query)
        return [one["vgpu_id"] for one in found["data"]], found["pagination"]

    assert await page(limit=2) == (keys[:2], {"limit": 2, "pages": 3, "count": 5})
    assert (await page(limit=2, start_after=4))[0] == keys[4:]
    assert (await page(limit=0))[0] == keys
    portal.simulation.set_switches({"page_cap": 3})
    assert await page(limit=0) == (keys[:3], {"limit": 3, "pages": 2, "count": 5})
    assert (await page(start_after=3))[0] == keys[3:]
    await portal.refused(400, "GET", f"{L}/vgpus", limit=-1)


UNATTACHED = [
    ("null", None),
    ("empty", {}),
    ("null-id", {"id": None, "name": None, "cloudspace_id": None, "cloudspace_name": None}),
]


@pytest.mark.parametrize(("shape", "expected"), UNATTACHED)
async def test_an_unattached_vgpu_has_one_of_three_shapes(
    portal: Portal, shape: str, expected: object
) -> None:
    """Nobody knows what the platform writes there."""
    portal.simulation.set_switches({"unattached_vm": shape})
    assert (await portal.vgpu(await portal.reserve()))["virtual_machine"] == expected


async def test_names_may_repeat_unless_the_switch_forbids_it(portal: Portal) -> None:
    """By default two vGPUs may share a name, which is how lost answers leave duplicates."""
    await portal.reserve("same")
    await portal.reserve("same")
    portal.simulation.set_switches({"vgpu_name_unique": True})
    gpu = (await portal.gpus())[0]
    await portal.refused(409, "POST", f"{L}/gpus/{gpu}", {"vgpu_name": "same"})
    await portal.refused(400, "POST", f"{L}/gpus/{gpu}", {"vgpu_name": " "})


async def test_a_vm_may_have_several_up_to_the_switch(portal: Portal) -> None:
    """Three at once without a limit; with one the next is refused."""
    vm = await portal.vm(await portal.cloudspace())
    keys = [await portal.attached(vm, f"gpu-{number}") for number in range(3)]
    shown = (await portal.ok("GET", vm))["devices"]
    assert [one["reference_id"] for one in shown] == keys
    portal.simulation.set_switches({"vm_vgpu_limit": 3})
    assert "limit" in await portal.refused(400, "POST", f"{vm}/vgpus/{await portal.reserve()}")


async def test_other_customers_take_room_but_are_not_seen(portal: Portal) -> None:
    """Capacity is the card's; lists are the customer's."""
    gpu = (await portal.gpus())[0]
    token = portal.simulation.mint("other", 60, offline=False)
    portal.http.headers["Authorization"] = f"Bearer {token}"
    await portal.ok("POST", f"/customers/other_2/locations/{BE}/gpus/{gpu}", {"vgpu_name": "x"})
    mine = portal.simulation.mint("demo", 60, offline=False)
    portal.http.headers["Authorization"] = f"Bearer {mine}"
    assert gpu not in await portal.gpus()
    assert (await portal.ok("GET", f"{L}/vgpus"))["data"] == []
    assert [row.customer for row in portal.ledger().rows] == ["other_2"]


async def test_the_ledger_bills_by_the_second(portal: Portal) -> None:
    """From the reservation to the end of the permanent deletion, whatever lies between."""
    vm = await portal.vm(await portal.cloudspace())
    key = await portal.reserve("billed")
    start = portal.simulation.clock.now()
    portal.advance(100)
    await portal.ok("POST", f"{vm}/vgpus/{key}")
    portal.advance(200)
    await portal.ok("DELETE", f"{vm}/vgpus/{key}")
    portal.advance(300)
    await portal.ok("DELETE", f"{L}/vgpus/{key}")
    portal.advance(400)
    assert portal.ledger().rows[0].seconds == pytest.approx(1000)
    await portal.ok("DELETE", f"{L}/vgpus/{key}", permanently=True)
    portal.advance(500)
    (row,) = portal.ledger().rows
    assert row.released_at == pytest.approx(start + 1000 + 0.1)
    assert row.seconds == pytest.approx(1000.1)
    (attachment,) = row.vms
    assert attachment["attached_at"] == pytest.approx(start + 100)
    assert attachment["detached_at"] == pytest.approx(start + 300.2)
    totals = portal.ledger().totals
    assert (totals.made, totals.released, totals.held) == (1, 1, 0)


async def test_consumption_tells_idle_reservations_apart(portal: Portal) -> None:
    """Hours with a VM are the VM's; hours without one are unassigned."""
    space = await portal.cloudspace()
    vm = await portal.vm(space)
    start = int(portal.simulation.clock.now())
    key = await portal.reserve()
    portal.advance(3600)
    await portal.ok("POST", f"{vm}/vgpus/{key}")
    portal.advance(7200)
    window = {"start": start, "end": start + 3600 * 3 + 1}
    used = (await portal.ok("GET", f"{vm}/consumption", **window))["vm"]["consumption"]
    assert used["vgu"] == pytest.approx(2, abs=0.01)
    assert used["vcu"] == pytest.approx(6, abs=0.01)
    location = await portal.ok("GET", f"{L}/consumption", **window)
    (idle,) = location["unassigned_vgpus"]
    assert idle["consumption"]["vgu"] == pytest.approx(1, abs=0.01)
    assert location["consumption"]["vgu"] == pytest.approx(3, abs=0.01)
    whole = (await portal.ok("GET", f"{space}/consumption", **window))["cloudspace"]
    assert whole["consumption"] == whole["vms"][0]["consumption"]
    await portal.refused(400, "GET", f"{vm}/consumption", start=2, end=1)


async def test_all_cards_can_be_held_at_once(portal: Portal) -> None:
    """The ledger and the free counts always add up to the capacity."""
    for number in range(ALL_IN_BE):
        await portal.reserve(f"gpu-{number}")
        free = len(await portal.gpus())
        capacity = sum(one.capacity for one in portal.simulation.store.find(Card, location=BE))
        assert portal.held() + free == capacity == ALL_IN_BE
    assert (await portal.ok("GET", f"{C}/recycle-bin"))["result"]["vgpus"] == []
