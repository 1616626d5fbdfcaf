"""Cloudspaces: create, list over locations, get, rename, delete, restore."""

import ipaddress
from typing import Any

from msgspec.structs import replace

from vcosim.cloud import Cloud, cloudspace_id
from vcosim.operations import networks
from vcosim.operations.vms import addresses, stamp
from vcosim.records import Cloudspace, ExternalNetwork, Location, Uplink, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict, done, not_found
from vcosim.request import Call

QUOTAS = ("vcpu_quota", "vdisk_space_quota", "memory_quota", "public_ip_quota")
SMALLEST_PREFIX = 29


def list_cloudspaces(cloud: Cloud, call: Call) -> Reply:
    """Answer the customer's cloudspaces in all its locations, with the health of each location."""
    asked = call.many("locations") or list(cloud.customer(call).locations)
    answering = [name for name in asked if name not in call.hidden]
    found = cloud.store.find(Cloudspace, parent=call.customer)
    wanted = [one for one in found if one.location in answering and _listed(one, call)]
    return Reply(
        {"locations": health(asked, call.hidden), "result": [_item(one) for one in wanted]}
    )


def health(names: list[str], hidden: frozenset[str]) -> list[dict[str, str]]:
    """Say for each location whether it answered."""
    return [{"location": one, "status": "error" if one in hidden else "OK"} for one in names]


def _listed(space: Cloudspace, call: Call) -> bool:
    if call.flag("only_deleted"):
        return space.binned > 0
    return not space.binned or call.flag("include_deleted")


def _item(space: Cloudspace) -> dict[str, object]:
    legs = [
        {
            "id": int(one.network_id) if one.network_id.isdigit() else None,
            "metric": one.metric,
            "ip": f"{one.address}/{one.prefix}",
            "type": one.type,
        }
        for one in space.uplinks
    ]
    return {
        "cloudspace_id": space.id,
        "status": space.status,
        "deletion_time": stamp(space.binned),
        "external_network_ip": primary(space).address if space.uplinks else None,
        "external_networks": [legs],
        "name": space.name,
        "update_time": int(space.updated),
        "creation_time": int(space.created),
        "router_type": "routeros",
        "cloudspace_mode": space.mode,
        "private_network": space.private_network,
        "location": space.location,
    }


def primary(space: Cloudspace) -> Uplink:
    """Return the leg with the lowest metric."""
    return min(space.uplinks, key=lambda one: one.metric)


def get_cloudspace(cloud: Cloud, call: Call) -> Reply:
    """Answer one cloudspace, the ones in the recycle bin (DELETED) included."""
    space = cloud.cloudspace(call)
    limits = {name: space.quotas.get(name, -1) for name in (*QUOTAS, "external_network_quota")}
    return Reply(
        {
            "cloudspace_id": space.id,
            "status": space.status,
            "external_network_ip": primary(space).address if space.uplinks else None,
            "external_network_id": primary(space).network_id if space.uplinks else None,
            "private_network": space.private_network,
            "name": space.name,
            "local_domain": space.local_domain,
            "update_time": int(space.updated),
            "creation_time": int(space.created),
            "router_type": "routeros",
            "location": space.location,
            "cloudspace_mode": space.mode,
            "resource_limits": limits,
        }
    )


def create_cloudspace(cloud: Cloud, call: Call) -> Reply:
    """Deploy a cloudspace with its gateway and, unless private, an external address."""
    body = call.body
    location = _location(cloud, call, body["location"])
    subnet = _subnet(body.get("private_network", "192.168.103.0/24"))
    _name_is_free(cloud, call.customer, body["name"])
    mode, nested_in, uplinks = _uplinks(cloud, call, location, body["firewall"])
    number = cloud.store.number(f"cloudspace:{location}", first=1301)
    space = Cloudspace(
        id=cloudspace_id(location, number),
        location=location,
        parent=call.customer,
        name=body["name"],
        created=cloud.now,
        number=number,
        private_network=subnet,
        local_domain=body.get("local_domain", ""),
        mode=mode,
        uplinks=uplinks,
        nested_in=nested_in,
        quotas={name: body[name] for name in QUOTAS if name in body},
    )
    cloud.begin(space, "DEPLOYING", "deployed", cloud.switches.cloudspace_seconds)
    until = cloud.now + cloud.switches.cloudspace_seconds
    return Reply({"cloudspace_id": space.id}, until=until)


def _location(cloud: Cloud, call: Call, name: str) -> str:
    if cloud.store.get(Location, "", name) is None:
        raise bad(f"Location {name} does not exist")
    if name not in cloud.customer(call).locations:
        raise RefusedError(403, f"Customer {call.customer} has no access to location {name}")
    return name


def _subnet(text: str) -> str:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise bad(f"Invalid private network {text!r}: {error}") from error
    if network.prefixlen > SMALLEST_PREFIX:
        raise bad(f"Private network {text} is too small, /{SMALLEST_PREFIX} is the smallest")
    return str(network)


def _name_is_free(cloud: Cloud, customer: str, name: str) -> None:
    if not name.strip():
        raise bad("Cloudspace name cannot be empty")
    same = cloud.store.find(Cloudspace, parent=customer, name=name)
    if any(not one.binned or cloud.switches.bin_reserves_names for one in same):
        raise conflict(f"Cloud Space with name {name} already exists.")


def _uplinks(
    cloud: Cloud, call: Call, location: str, firewall: dict[str, Any]
) -> tuple[str, str, tuple[Uplink, ...]]:
    """Return mode, parent cloudspace and legs for a firewall specification."""
    if firewall.get("custom"):
        raise bad("Custom firewalls are not available in this location")
    network_id, parent = firewall.get("external_network_id"), firewall.get("parent_cloudspace_id")
    if network_id is not None and parent:
        raise bad("Only one of parent_cloudspace_id or external_network_id should be passed")
    if firewall["private"]:
        return "private", "", ()
    if parent:
        return "nested", parent, (_nested(cloud, call, location, parent),)
    found = _network(cloud, location, network_id)
    return "public", "", (networks.uplink(cloud, found, "", networks.PRIMARY_METRIC),)


def _network(cloud: Cloud, location: str, network_id: int | None) -> ExternalNetwork:
    if network_id is not None:
        found = networks.network(cloud, location, str(network_id))
        if found is None:
            raise bad(f"External network with id {network_id} does not exist in {location}")
        return found
    public = [one for one in cloud.store.find(ExternalNetwork, location=location) if one.public]
    if not public:
        raise bad(f"Location {location} has no default external network")
    return public[0]


def _nested(cloud: Cloud, call: Call, location: str, parent: str) -> Uplink:
    try:
        above = cloud.cloudspace_by_id(call, parent)
    except RefusedError as error:
        raise bad(error.message) from error
    if above.location != location:
        raise bad(f"Parent cloudspace {parent} is not in location {location}")
    address = next(addresses(cloud, above), None)
    if address is None:
        raise RefusedError(503, f"No free address in cloudspace {above.name}")
    prefix = ipaddress.ip_network(above.private_network).prefixlen
    return Uplink(
        network_id=parent,
        address=address,
        prefix=prefix,
        metric=networks.PRIMARY_METRIC,
        type="cloudspace",
    )


def rename(cloud: Cloud, call: Call) -> Reply:
    """Give a cloudspace another name."""
    space = cloud.idle(cloud.live_cloudspace(call))
    if call.text("name") != space.name:
        _name_is_free(cloud, call.customer, call.text("name"))
    cloud.store.put(replace(space, name=call.text("name"), updated=cloud.now))
    return done()


def delete_cloudspace(cloud: Cloud, call: Call) -> Reply:
    """Move a cloudspace to the recycle bin, or remove it and its binned VMs for good."""
    space = cloud.cloudspace(call)
    if space.status == "DEPLOYING":
        raise bad(f"Cloudspace {space.name} is being deployed and cannot be deleted now")
    cloud.idle(space)
    if cloud.store.count(Vm, location=space.location, parent=space.id, binned=False):
        raise conflict("In order to delete a CloudSpace it can not contain Machines.")
    nested = cloud.store.find(Cloudspace, location=space.location, parent=call.customer)
    if any(one.nested_in == space.id for one in nested):
        raise conflict("In order to delete a CloudSpace it can not contain nested CloudSpaces.")
    permanently = call.flag("permanently")
    if space.binned and not permanently:
        return done()
    status, ends = ("DESTROYING", "destroyed") if permanently else ("DELETING", "binned")
    cloud.begin(space, status, ends, cloud.switches.delete_seconds)
    return done(cloud.now + cloud.switches.delete_seconds)


def restore_cloudspace(cloud: Cloud, call: Call) -> Reply:
    """Bring a cloudspace back from the recycle bin; its VMs stay there."""
    space = cloud.cloudspace(call)
    if not space.binned:
        raise bad(f"Cloudspace {space.name} is not in the recycle bin")
    cloud.idle(space)
    cloud.begin(space, "RESTORING", "deployed", cloud.switches.restore_seconds)
    return done(cloud.now + cloud.switches.restore_seconds)


def available_addresses(cloud: Cloud, call: Call) -> Reply:
    """Answer the free private addresses of a cloudspace."""
    space = cloud.cloudspace(call)
    if space.binned:
        raise not_found(f"Cloudspace with id {space.id}")
    return Reply({"ip_addresses": list(addresses(cloud, space))})


HANDLERS = {
    "GET {C}/cloudspaces": list_cloudspaces,
    "POST {C}/cloudspaces": create_cloudspace,
    "GET {CS}": get_cloudspace,
    "DELETE {CS}": delete_cloudspace,
    "PUT {CS}/restore": restore_cloudspace,
    "PUT {CS}/name": rename,
    "GET {CS}/available-ip-addresses": available_addresses,
}
