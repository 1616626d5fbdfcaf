"""Answers into structs: lenient about values, strict about shapes."""

from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.vco import errors as e
from capvco.vco.answers import Answer
from capvco.vco.call import Call, read
from capvco.vco.cloud import VCO
from capvco.vco.cloudspaces import decode_cloudspace_id, encode_cloudspace_id
from capvco.vco.decode import decode
from capvco.vco.envelopes import FanOut, Health, Result
from capvco.vco.models import (
    VGPU,
    VM,
    Cloudspace,
    CloudspaceNetwork,
    Image,
    NetworkInterface,
    VMItem,
)
from tests.unit.vco.support import a_vco, html, json

READ = read("/x")
WRITE = Call(method="POST", route="/x")


def a_vgpu(body: bytes) -> VGPU:
    return decode(READ, Answer(200, body), VGPU)


@pytest.mark.parametrize("nothing", [b"null", b"{}", b'{"id": null}', b'{"id": 0, "name": ""}'])
def test_attachment_to_nothing_is_none(nothing: bytes) -> None:
    """A vGPU that no VM has says so in several ways."""
    vgpu = a_vgpu(b'{"vgpu_id": "a", "virtual_machine": ' + nothing + b"}")
    assert vgpu.virtual_machine is None
    assert vgpu.vm_id is None


def test_attachment_to_a_vm() -> None:
    """A vGPU that a VM has names it; numbers may come as text."""
    vgpu = a_vgpu(b'{"vgpu_id": "a", "virtual_machine": {"id": "12", "cloudspace_id": 7}}')
    assert vgpu.vm_id == 12
    assert vgpu.virtual_machine is not None
    assert vgpu.virtual_machine.cloudspace_id == "7"


@pytest.mark.parametrize(
    ("time", "in_bin"),
    [
        (b"null", False),
        (b"0", False),
        (b"0.0", False),
        (b'""', False),
        (b'"0"', False),
        (b"1638300000", True),
        (b"1638300000.5", True),
        (b'"1638300000"', True),
        (b'"2021-11-30 19:20:00"', True),
    ],
)
def test_deletion_time(time: bytes, in_bin: bool) -> None:
    """Any time at all means that it lies in the recycle bin."""
    assert a_vgpu(b'{"vgpu_id": "a", "deletion_time": ' + time + b"}").in_bin is in_bin
    body = b'{"vm_id": 1, "name": "n", "status": "s", "deletion_time": ' + time + b"}"
    assert decode(READ, Answer(200, body), VMItem).in_bin is in_bin


def test_nulls_and_unknown_fields() -> None:
    """Null means absent, and fields that nobody knows are nobody's business."""
    body = (
        b'{"vm_id": 1, "name": "n", "status": "HALTED", "description": null, "disks": null,'
        b' "network_interfaces": [{"ip_address": null}], "new_field": {"a": [1]}}'
    )
    vm = decode(READ, Answer(200, body), VM)
    assert (vm.description, vm.disks) == ("", ())
    assert vm.network_interfaces == (NetworkInterface(),)


@pytest.mark.parametrize("network", [b"12", b'"12"'])
def test_ids_that_are_text_here_and_numbers_there(network: bytes) -> None:
    """The id of a network is text, however it came."""
    body = b'{"cloudspace_id": "a", "name": "n", "status": "s", "external_network_id": ' + network
    assert decode(READ, Answer(200, body + b"}"), Cloudspace).external_network_id == "12"
    connected = decode(
        READ, Answer(200, b'{"external_network_id": ' + network + b"}"), CloudspaceNetwork
    )
    assert connected.external_network_id == "12"


@pytest.mark.parametrize(
    ("tags", "text"), [(b'"a,b"', "a,b"), (b'["a", "b"]', "a,b"), (b"null", "")]
)
def test_tags(tags: bytes, text: str) -> None:
    """Tags are text, or a list of texts."""
    body = b'{"image_id": 1, "name": "n", "tags": ' + tags + b"}"
    assert decode(READ, Answer(200, body), Image).tags == text


@pytest.mark.parametrize(
    ("ip", "address"),
    [
        ("192.168.103.5", "192.168.103.5"),
        ("185.1.2.3/24", "185.1.2.3"),
        ("2001:db8::1/64", "2001:db8::1"),
        ("Undefined", ""),
        ("", ""),
    ],
)
def test_addresses(ip: str, address: str) -> None:
    """Addresses come with and without prefix length, and as a word while there is none."""
    assert NetworkInterface(ip_address=ip).address == address


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b'{"result": [{"vm_id": 1',
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"result": null}',
        b'{"result": {}}',
        b'{"result": "none"}',
        b'{"data": []}',
        b'{"result": [{}]}',
        b'{"result": [{"vm_id": null, "name": "n", "status": "s"}]}',
        b'{"result": [{"vm_id": "one", "name": "n", "status": "s"}]}',
        b'{"message": "an error with status 200"}',
    ],
)
def test_a_list_is_never_empty_by_mistake(body: bytes) -> None:
    """Anything but the described list is an error."""
    with pytest.raises(e.Malformed):
        decode(READ, Answer(200, body), Result[VMItem])
    with pytest.raises(e.UnknownOutcome):
        decode(WRITE, Answer(200, body), Result[VMItem])


def test_unexpected_json_names_the_place_and_not_the_content() -> None:
    """The error helps to find the field, without showing anybody's data."""
    body = b'{"result": [{"vm_id": "hunter2", "name": "n", "status": "s"}]}'
    with pytest.raises(e.Malformed, match=r"\$\.result\[0\]\.vm_id") as failed:
        decode(READ, Answer(200, body), Result[VMItem])
    assert "hunter2" not in str(failed.value)
    with pytest.raises(e.Malformed, match="Expected `object`, got `array`") as failed:
        decode(READ, Answer(200, b'["hunter2"]'), Result[VMItem])
    assert "hunter2" not in str(failed.value)
    with pytest.raises(e.Malformed, match="the answer is empty"):
        decode(READ, Answer(200, b""), Result[VMItem])


@pytest.mark.parametrize(
    ("health", "asked", "failed"),
    [
        ({"a": "OK", "b": "ok"}, None, ()),
        ({"a": "OK", "b": "error"}, None, ("b",)),
        ({"b": "error", "a": "weird"}, None, ("a", "b")),
        ({"a": "OK", "b": "error"}, ["a"], ()),
        ({"a": "OK", "b": "error"}, ["b"], ("b",)),
        ({"a": "OK"}, ["a", "c"], ("c",)),
        ({}, None, ()),
    ],
)
def test_health_of_locations(
    health: dict[str, str], asked: list[str] | None, failed: tuple[str, ...]
) -> None:
    """A location counts as read only if it says so itself."""
    locations = tuple(Health(location=name, status=status) for name, status in health.items())
    assert FanOut(locations=locations, result=()).failed(asked) == failed


CLOUDSPACE = {"cloudspace_id": "a", "name": "n", "location": "x", "status": "DEPLOYED"}


async def test_partial_list_is_an_error_that_carries_what_is_known() -> None:
    """What is missing may exist, so nobody gets a list that looks complete."""
    health = [{"location": "x", "status": "OK"}, {"location": "y", "status": "error"}]
    vco, _ = a_vco(json({"locations": health, "result": [CLOUDSPACE]}))
    with pytest.raises(e.PartialList, match="no word from location y") as partial:
        await vco.cloudspaces.list()
    assert [item.name for item in partial.value.readable] == ["n"]
    assert partial.value.failed == ("y",)
    assert [item.name for item in await vco.cloudspaces.list(locations=["x"])] == ["n"]


async def test_list_without_health_is_malformed() -> None:
    """Without the health of the locations nobody knows what is missing."""
    vco, _ = a_vco(json({"result": [CLOUDSPACE]}))
    with pytest.raises(e.Malformed, match="locations"):
        await vco.cloudspaces.list()


async def test_recycle_bin_may_be_partial() -> None:
    """The recycle bin is gathered from all locations, too."""
    bin_ = {"vgpus": [{"vgpu_id": "a", "vgpu_name": "n"}], "vms": [], "cloudspaces": None}
    health = [{"location": "y", "status": "error"}]
    vco, _ = a_vco(
        json({"locations": health, "result": bin_}), json({"locations": [], "result": bin_})
    )
    with pytest.raises(e.PartialList) as partial:
        await vco.cloudspaces.recycle_bin()
    assert partial.value.readable.vgpus[0].vgpu_id == "a"
    assert (await vco.cloudspaces.recycle_bin()).vgpus[0].vgpu_name == "n"


LISTS: list[Callable[[VCO], Awaitable[object]]] = [
    lambda v: v.locations.list(),
    lambda v: v.images.list("x"),
    lambda v: v.networks.list("x"),
    lambda v: v.networks.free_addresses("x", 1),
    lambda v: v.cloudspaces.list(),
    lambda v: v.cloudspaces.external_networks("a"),
    lambda v: v.cloudspaces.recycle_bin(),
    lambda v: v.vms.list("a"),
    lambda v: v.vms.notes("a", 1),
    lambda v: v.loadbalancers.list("a"),
    lambda v: v.loadbalancers.list_pools("a"),
    lambda v: v.loadbalancers.list_hosts("a", "p"),
    lambda v: v.loadbalancers.list_forwards("a"),
    lambda v: v.affinity.list("a"),
    lambda v: v.affinity.members("a", "g"),
    lambda v: v.gpus.profiles("x"),
    lambda v: v.gpus.vgpus("x"),
]


@pytest.mark.looptime
@pytest.mark.parametrize("read_list", LISTS)
@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"message": "no"}', b'{"result": ['])
async def test_no_list_is_empty_by_mistake(
    read_list: Callable[[VCO], Awaitable[object]], body: bytes
) -> None:
    """Every list of the API is an error if its envelope is not there."""
    reply = html(200)
    for broken in (reply, type(reply)(200, content=body)):
        vco, _ = a_vco(broken)
        with pytest.raises(e.Malformed):
            await read_list(vco)


@pytest.mark.looptime
async def test_vgpus_that_never_add_up() -> None:
    """After a few readings that contradict each other the list is given up."""
    vco, platform = a_vco(json({"pagination": {"count": 2}, "data": [{"vgpu_id": "a"}]}))
    with pytest.raises(e.Inconsistent, match="4 readings"):
        await vco.gpus.vgpus("x")
    assert len(platform.seen) == 8


async def test_vgpus_that_changed_once() -> None:
    """One reading that was disturbed is followed by another."""
    entry = {"vgpu_id": "a", "vgpu_name": "n"}
    off = json({"pagination": {"count": 0}, "data": [entry]})
    vco, _ = a_vco(off, json({"pagination": {"count": 1}, "data": [entry]}))
    assert [vgpu.vgpu_name for vgpu in await vco.gpus.vgpus("x")] == ["n"]


def test_cloudspace_ids() -> None:
    """The id tells the location and the number; an example from the platform."""
    assert decode_cloudspace_id("dXMtamFjLWRjMDEtMDAyOjEzMDI") == ("us-jac-dc01-002", 1302)
    assert encode_cloudspace_id("us-jac-dc01-002", 1302) == "dXMtamFjLWRjMDEtMDAyOjEzMDI"


@given(st.from_regex(r"[a-z0-9-]{1,30}", fullmatch=True), st.integers(0, 2**63))
def test_cloudspace_ids_round_trip(location: str, number: int) -> None:
    """Every id can be taken apart and put together."""
    assert decode_cloudspace_id(encode_cloudspace_id(location, number)) == (location, number)


@pytest.mark.parametrize("bad", ["", "x", "1302", "!!!!", "YTpi", "OjEz", "ünïcode", "Zm9vYmFy"])
def test_what_is_not_a_cloudspace_id(bad: str) -> None:
    """Anything else is refused with a sentence that says what an id is."""
    with pytest.raises(ValueError, match="is not a cloudspace id: it is base64 of"):
        decode_cloudspace_id(bad)
