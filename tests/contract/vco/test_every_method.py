"""Every method of the client, once, against the simulator; which also checks every request."""

import inspect
import time
from collections.abc import Awaitable, Callable

import pytest

from capvco.vco import errors as e
from capvco.vco.cloudspaces import decode_cloudspace_id
from capvco.vco.images import NewImage
from capvco.vco.loadbalancers import NewPortForward
from capvco.vco.models import AffinityGroup, GPUProfile
from capvco.vco.vms import NewVM
from tests.contract.vco.conftest import Site
from vcosim.stock import BE, NL

Case = Callable[[Site], Awaitable[None]]
CASES: dict[str, list[Case]] = {}
USERDATA = {"users": [{"name": "admin"}], "write_files": [{"path": "/a", "content": "b: [1]\n"}]}
IMAGE = NewImage(
    name="own",
    memory=512,
    boot_disk_size=10,
    boot_type="bios",
    tags="gpu",
    username="admin",
    password="hunter2-hunter2",
    md5_sum="0" * 32,
)


def case(*methods: str) -> Callable[[Case], Case]:
    """Register a test as the one for these methods."""

    def register(function: Case) -> Case:
        for method in methods:
            CASES.setdefault(method, []).append(function)
        return function

    return register


async def a_cloudspace(site: Site, name: str = "space") -> str:
    network = (await site.vco.networks.list(BE))[0]
    return await site.vco.cloudspaces.create(
        name=name,
        location=BE,
        external_network_id=network.external_network_id,
        private_network="192.168.103.0/24",
        local_domain="cluster.test",
    )


async def an_image(site: Site) -> int:
    return (await site.vco.images.list(BE))[0].image_id


async def a_vm(site: Site, space: str, *, start: bool = False, name: str = "vm-1") -> int:
    new = NewVM(
        name=name,
        description="made by a test",
        vcpus=2,
        memory_mib=4096,
        disk_gib=50,
        image_id=await an_image(site),
        userdata=USERDATA,
        hostname=name,
        start_vm=start,
    )
    return await site.vco.vms.create(space, new)


async def a_card(site: Site) -> GPUProfile:
    return next(p for p in await site.vco.gpus.profiles(BE) if "A100" in p.model)


@case("locations.list", "locations.get")
async def locations(site: Site) -> None:
    """The customer's locations are named and readable; others are not."""
    assert await site.vco.locations.list() == (BE, NL)
    assert (await site.vco.locations.get(BE)).location == BE
    with pytest.raises((e.Forbidden, e.NotFound)):
        await site.vco.locations.get("xx-nowhere-001")


@case("locations.consumption")
async def consumption(site: Site) -> None:
    """An idle reservation shows in the consumption, by its id."""
    begun = int(time.time())
    id_ = await site.vco.gpus.reserve(BE, gpu_id=(await a_card(site)).id, name="idle")
    found = await site.vco.locations.consumption(BE, start=begun - 3600, end=begun + 3600)
    assert [one.vgpu_id for one in found.unassigned_vgpus] == [id_]


@case("images.list", "images.get")
async def images(site: Site) -> None:
    """Images are listed, and one by one they tell how they boot."""
    listed = await site.vco.images.list(BE)
    assert listed[0].name.startswith("Ubuntu 24.04")
    assert (await site.vco.images.get(BE, listed[0].image_id)).boot_type == "bios"
    with pytest.raises(e.NotFound):
        await site.vco.images.get(BE, 999_999)


@case("images.create_by_url", "images.delete")
async def image_by_url(site: Site) -> None:
    """An image that the platform fetches is found by its name, and can be deleted."""
    await site.vco.images.create_by_url(BE, url="https://images.test/own.qcow2", image=IMAGE)
    found = [i for i in await site.vco.images.list(BE) if i.name == "own"]
    assert (found[0].tags.split(",")[0], found[0].memory) == ("gpu", 512)
    await site.vco.images.delete(BE, found[0].image_id, permanently=True)
    assert "own" not in [i.name for i in await site.vco.images.list(BE)]


@case("images.upload_start", "images.upload_part", "images.upload_finish")
async def image_by_parts(site: Site) -> None:
    """An image that is uploaded in parts is found by its name."""
    upload = await site.vco.images.upload_start(BE, file_name="own.qcow2")
    assert upload.part_size > 0
    parts = [
        await site.vco.images.upload_part(BE, upload, part=n, content=b"x" * 1000 * n)
        for n in (1, 2)
    ]
    assert all(part.etag for part in parts)
    await site.vco.images.upload_finish(BE, upload, parts=parts, image=IMAGE)
    assert "own" in [i.name for i in await site.vco.images.list(BE)]


@case("networks.list", "networks.get", "networks.free_addresses")
async def networks(site: Site) -> None:
    """External networks are listed with what is free in them."""
    listed = await site.vco.networks.list(BE)
    assert [n.public for n in listed] == [True, False]
    one = await site.vco.networks.get(BE, listed[0].external_network_id)
    assert one == listed[0]
    assert await site.vco.networks.free_addresses(BE, one.external_network_id)
    with pytest.raises(e.NotFound):
        await site.vco.networks.get(BE, 999)


@case("cloudspaces.create", "cloudspaces.get", "cloudspaces.external_networks")
async def cloudspace(site: Site) -> None:
    """A cloudspace has an id that names its location, and an address."""
    space = await a_cloudspace(site)
    assert decode_cloudspace_id(space)[0] == BE
    found = await site.vco.cloudspaces.get(space)
    assert (found.name, found.status, found.location) == ("space", "DEPLOYED", BE)
    assert found.private_network == "192.168.103.0/24"
    network = (await site.vco.cloudspaces.external_networks(space))[0]
    assert network.address == found.external_network_ip.partition("/")[0]
    assert network.external_network_id == found.external_network_id
    with pytest.raises(e.Conflict):
        await a_cloudspace(site)


@case("cloudspaces.list", "cloudspaces.delete", "cloudspaces.recycle_bin")
async def cloudspace_list(site: Site) -> None:
    """A deleted cloudspace is in the recycle bin, until it is deleted for good."""
    space = await a_cloudspace(site)
    assert [c.cloudspace_id for c in await site.vco.cloudspaces.list()] == [space]
    assert await site.vco.cloudspaces.list(locations=[NL]) == ()
    await site.vco.cloudspaces.delete(space, permanently=False, reason="a test")
    assert await site.vco.cloudspaces.list(locations=[BE]) == ()
    binned = await site.vco.cloudspaces.list(only_deleted=True)
    assert [c.in_bin for c in binned] == [True]
    assert len(await site.vco.cloudspaces.list(include_deleted=True)) == 1
    bin_ = await site.vco.cloudspaces.recycle_bin()
    assert [c.cloudspace_id for c in bin_.cloudspaces] == [space]
    await site.vco.cloudspaces.delete(space, permanently=True)
    assert (await site.vco.cloudspaces.recycle_bin()).cloudspaces == ()


@case("vms.create", "vms.get", "vms.list")
async def vm(site: Site) -> None:
    """A VM is as it was asked for, and the guest reads its user data."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    found = await site.vco.vms.get(space, vm_id)
    assert (found.name, found.status, found.vcpus, found.memory) == ("vm-1", "HALTED", 2, 4096)
    assert (found.cloudspace_id, found.hostname) == (space, "vm-1")
    assert found.network_interfaces[0].address
    listed = await site.vco.vms.list(space)
    assert [(v.vm_id, v.name, v.in_bin) for v in listed] == [(vm_id, "vm-1", False)]
    assert listed[0].network_interfaces[0].address == found.network_interfaces[0].address
    assert site.control.userdata(BE, vm_id).userdata == USERDATA
    with pytest.raises(e.Conflict):
        await a_vm(site, space)
    with pytest.raises(e.NotFound):
        await site.vco.vms.get(space, vm_id + 1)


@case("vms.create")
async def vm_with_text(site: Site) -> None:
    """User data may also go as text, and the address may be chosen."""
    space = await a_cloudspace(site)
    new = NewVM(
        name="vm-2",
        description="by text",
        vcpus=1,
        memory_mib=2048,
        disk_gib=20,
        image_id=await an_image(site),
        user_data="packages: [nginx]\n",
        private_ip="192.168.103.77",
        enable_vm_agent=False,
    )
    vm_id = await site.vco.vms.create(space, new)
    found = await site.vco.vms.get(space, vm_id)
    assert found.network_interfaces[0].address == "192.168.103.77"
    assert "nginx" in site.control.userdata(BE, vm_id).text


@case("vms.start", "vms.stop")
async def vm_power(site: Site) -> None:
    """A VM is started and stopped."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    await site.vco.vms.start(space, vm_id)
    assert (await site.vco.vms.get(space, vm_id)).status == "RUNNING"
    await site.vco.vms.stop(space, vm_id, force=True)
    assert (await site.vco.vms.get(space, vm_id)).status == "HALTED"


@case("vms.delete", "vms.restore", "vms.list", "cloudspaces.recycle_bin")
async def vm_deletion(site: Site) -> None:
    """A deleted VM is in the recycle bin and comes back, until it is deleted for good."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    await site.vco.vms.delete(space, vm_id, permanently=False)
    assert await site.vco.vms.list(space) == ()
    assert [v.in_bin for v in await site.vco.vms.list(space, only_deleted=True)] == [True]
    assert len(await site.vco.vms.list(space, include_deleted=True)) == 1
    bin_ = await site.vco.cloudspaces.recycle_bin()
    assert [(v.vm_id, v.cloudspace_id) for v in bin_.vms] == [(vm_id, space)]
    with pytest.raises(e.Conflict):
        await a_vm(site, space)
    await site.vco.vms.restore(space, vm_id, reason="a test")
    assert (await site.vco.vms.get(space, vm_id)).status == "HALTED"
    await site.vco.vms.delete(space, vm_id, permanently=True, detach_disks=False, detach_gpu=True)
    with pytest.raises(e.NotFound):
        await site.vco.vms.get(space, vm_id)


@case("vms.notes", "vms.add_note")
async def vm_notes(site: Site) -> None:
    """Notes are kept as they are."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    assert await site.vco.vms.notes(space, vm_id) == ()
    await site.vco.vms.add_note(space, vm_id, title="owner", content="default/gpu-1 é")
    notes = await site.vco.vms.notes(space, vm_id)
    assert [(n.title, n.content) for n in notes] == [("owner", "default/gpu-1 é")]


@case("vms.agent", "vms.execute", "vms.read_file", "vms.write_file")
async def vm_agent(site: Site) -> None:
    """Inside a running VM commands run and files are read and written."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    with pytest.raises(e.Refused, match="VM agent must be enabled and running"):
        await site.vco.vms.execute(space, vm_id, command="hostname")
    await site.vco.vms.start(space, vm_id)
    assert await site.vco.vms.agent(space, vm_id) == "RUNNING"
    assert await site.vco.vms.execute(space, vm_id, command="echo", args=["a b", "c"]) == "a b c\n"
    await site.vco.vms.write_file(space, vm_id, filepath="/x", content=b"\x00\xff123")
    await site.vco.vms.write_file(space, vm_id, filepath="/x", content=b"4", append=True)
    assert await site.vco.vms.read_file(space, vm_id, filepath="/x") == b"\x00\xff1234"
    assert await site.vco.vms.read_file(space, vm_id, filepath="/x", size=2, seek=2) == b"12"


@case("vms.attach_vgpu", "vms.detach_vgpu")
async def vm_vgpus(site: Site) -> None:
    """Two vGPUs are attached to one VM; detached ones stay reserved."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    cards = [p for p in await site.vco.gpus.profiles(BE) if "A100" in p.model]
    ids = [
        await site.vco.gpus.reserve(BE, gpu_id=card.id, name=f"g-{i}")
        for i, card in enumerate(cards[:2])
    ]
    for id_ in ids:
        await site.vco.vms.attach_vgpu(space, vm_id, id_)
    held = await site.vco.gpus.vgpus(BE)
    assert [v.vm_id for v in held] == [vm_id, vm_id]
    assert held[0].virtual_machine is not None
    assert held[0].virtual_machine.cloudspace_id == space
    assert {d.reference_id for d in (await site.vco.vms.get(space, vm_id)).devices} == set(ids)
    await site.vco.vms.start(space, vm_id)
    with pytest.raises(e.Conflict):
        await site.vco.vms.detach_vgpu(space, vm_id, ids[0])
    await site.vco.vms.stop(space, vm_id)
    await site.vco.vms.detach_vgpu(space, vm_id, ids[0])
    assert {v.vgpu_id: v.vm_id for v in await site.vco.gpus.vgpus(BE)} == {
        ids[0]: None,
        ids[1]: vm_id,
    }


@case(
    "loadbalancers.create_pool",
    "loadbalancers.list_pools",
    "loadbalancers.get_pool",
    "loadbalancers.delete_pool",
    "loadbalancers.add_host",
    "loadbalancers.list_hosts",
    "loadbalancers.remove_host",
)
async def pools(site: Site) -> None:
    """A server pool and its hosts come and go."""
    lb, space = site.vco.loadbalancers, await a_cloudspace(site)
    pool = await lb.create_pool(space, name="api", description="control plane")
    assert [(p.serverpool_id, p.name) for p in await lb.list_pools(space)] == [(pool, "api")]
    host = await lb.add_host(space, pool, address="192.168.103.5")
    assert await lb.list_hosts(space, pool) == (host,)
    found = await lb.get_pool(space, pool)
    assert (found.description, found.hosts) == ("control plane", (host,))
    await lb.remove_host(space, pool, host.host_id)
    assert await lb.list_hosts(space, pool) == ()
    await lb.delete_pool(space, pool)
    assert await lb.list_pools(space) == ()
    with pytest.raises(e.NotFound):
        await lb.get_pool(space, pool)


@case(
    "loadbalancers.create",
    "loadbalancers.list",
    "loadbalancers.get",
    "loadbalancers.delete",
)
async def balancers(site: Site) -> None:
    """A load balancer listens on the cloudspace's address."""
    lb, space = site.vco.loadbalancers, await a_cloudspace(site)
    pool = await lb.create_pool(space, name="api")
    address = (await site.vco.cloudspaces.external_networks(space))[0].address
    id_ = await lb.create(
        space,
        name="api",
        description="control plane",
        port=6443,
        serverpool_id=pool,
        target_port=6443,
        ip_address=address,
    )
    assert [(b.loadbalancer_id, b.name) for b in await lb.list(space)] == [(id_, "api")]
    found = await lb.get(space, id_)
    assert (found.front_end.port, found.front_end.ip_address) == (6443, address)
    assert (found.back_end.serverpool_id, found.description) == (pool, "control plane")
    other = await lb.create(
        space, name="dns", port=53, serverpool_id=pool, target_port=53, protocol="UDP"
    )
    assert (await lb.get(space, other)).type.upper() == "UDP"
    with pytest.raises(e.Conflict):
        await lb.delete_pool(space, pool)
    for one in (id_, other):
        await lb.delete(space, one)
    assert await lb.list(space) == ()


@case("loadbalancers.create_forward", "loadbalancers.list_forwards", "loadbalancers.delete_forward")
async def forwards(site: Site) -> None:
    """A port forward leads to a VM."""
    lb, space = site.vco.loadbalancers, await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    new = NewPortForward(vm_id=vm_id, local_port=22, public_port=2222)
    id_ = await lb.create_forward(space, new)
    found = (await lb.list_forwards(space))[0]
    assert (found.portforward_id, found.vm_id, found.public_port) == (id_, vm_id, 2222)
    await lb.delete_forward(space, id_)
    assert await lb.list_forwards(space) == ()


@case(
    "affinity.create",
    "affinity.list",
    "affinity.delete",
    "affinity.add",
    "affinity.members",
    "affinity.remove",
)
async def groups(site: Site) -> None:
    """An anti-affinity group takes and loses members."""
    groups, space = site.vco.affinity, await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    await groups.create(space, group_id="workers", spread=-1)
    assert [type(g) for g in await groups.list(space)] == [AffinityGroup]
    await groups.add(space, "workers", vm_id=vm_id)
    assert [m.vm_id for m in await groups.members(space, "workers")] == [vm_id]
    assert (await site.vco.vms.get(space, vm_id)).anti_affinity_group_ids == ("workers",)
    await groups.remove(space, "workers", vm_id=vm_id)
    assert await groups.members(space, "workers") == ()
    await groups.delete(space, "workers")
    assert await groups.list(space) == ()


@case("gpus.profiles", "gpus.reserve")
async def reservation(site: Site) -> None:
    """A reservation takes an instance; when none is left the platform says so."""
    card = await a_card(site)
    assert (card.vendor, card.available_instances) == ("NVIDIA", 1)
    await site.vco.gpus.reserve(BE, gpu_id=card.id, name="one")
    assert (await a_card(site)).available_instances == 0
    with pytest.raises(e.NoCapacity):
        await site.vco.gpus.reserve(BE, gpu_id=card.id, name="two")
    with pytest.raises(e.NotFound):
        await site.vco.gpus.reserve(BE, gpu_id="no-such-profile", name="three")


@case("gpus.vgpus", "gpus.release", "gpus.restore", "cloudspaces.recycle_bin")
async def release(site: Site) -> None:
    """A vGPU in the recycle bin is still held; deleted for good it is not."""
    gpus, card = site.vco.gpus, await a_card(site)
    id_ = await gpus.reserve(BE, gpu_id=card.id, name="one")
    assert [(v.vgpu_id, v.vgpu_name, v.gpu_id) for v in await gpus.vgpus(BE)] == [
        (id_, "one", card.id)
    ]
    await gpus.release(BE, id_, permanently=False)
    assert await gpus.vgpus(BE) == ()
    assert [v.in_bin for v in await gpus.vgpus(BE, only_deleted=True)] == [True]
    assert [v.in_bin for v in await gpus.vgpus(BE, include_deleted=True)] == [True]
    bin_ = await site.vco.cloudspaces.recycle_bin()
    assert [(v.vgpu_id, v.vgpu_name) for v in bin_.vgpus] == [(id_, "one")]
    await gpus.restore(BE, id_)
    assert [v.in_bin for v in await gpus.vgpus(BE)] == [False]
    await gpus.release(BE, id_)
    assert await gpus.vgpus(BE, include_deleted=True) == ()
    assert site.control.ledger().totals.held == 0
    with pytest.raises(e.NotFound):
        await gpus.release(BE, id_)


@case("gpus.release")
async def release_from_a_vm(site: Site) -> None:
    """An attached vGPU is taken away from its VM only if that is asked for."""
    space = await a_cloudspace(site)
    vm_id = await a_vm(site, space)
    id_ = await site.vco.gpus.reserve(BE, gpu_id=(await a_card(site)).id, name="one")
    await site.vco.vms.attach_vgpu(space, vm_id, id_)
    with pytest.raises(e.Conflict):
        await site.vco.gpus.release(BE, id_)
    await site.vco.gpus.release(BE, id_, detach=True)
    assert await site.vco.gpus.vgpus(BE, include_deleted=True) == ()


def methods(site: Site) -> set[str]:
    """Name every public method of every resource group."""
    groups = {name: group for name, group in vars(site.vco).items() if not name.startswith("_")}
    return {
        f"{name}.{method}"
        for name, group in groups.items()
        for method, _ in inspect.getmembers(type(group), inspect.iscoroutinefunction)
        if not method.startswith("_")
    }


async def test_every_method_has_a_case(site: Site) -> None:
    """No method goes without a test here."""
    assert set(CASES) == methods(site)


FUNCTIONS = {function.__name__: function for found in CASES.values() for function in found}


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_method(site: Site, name: str) -> None:
    """Each method does what it says, and the simulator finds no breach of the description."""
    await FUNCTIONS[name](site)


@pytest.mark.parametrize("name", FUNCTIONS)
async def test_method_on_a_platform_of_other_habits(site: Site, name: str) -> None:
    """The same where the description leaves things open and the platform chose otherwise."""
    site.control.set(
        absent_fields="omit",
        unattached_vm="empty",
        no_schema_body="empty",
        image_create_reply="none",
        no_capacity_status=503,
        page_cap=2,
    )
    await FUNCTIONS[name](site)
