"""External networks of a location, and the addresses cloudspaces take from them."""

import ipaddress
from collections.abc import Iterator

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.records import Cloudspace, ExternalNetwork, LoadBalancer, PortForward, Uplink
from vcosim.reply import RefusedError, Reply, bad, conflict, done, not_found
from vcosim.request import Call

PRIMARY_METRIC = 100


def network(cloud: Cloud, location: str, key: str) -> ExternalNetwork | None:
    """Return an external network of a location, or None."""
    return cloud.store.get(ExternalNetwork, location, key)


def taken(cloud: Cloud, location: str, key: str) -> set[str]:
    """Return the addresses that cloudspaces hold in a network, those in the bin included."""
    return {
        uplink.address
        for space in cloud.store.find(Cloudspace, location=location)
        for uplink in space.uplinks
        if uplink.type == "external" and uplink.network_id == key
    }


def free(cloud: Cloud, found: ExternalNetwork) -> Iterator[str]:
    """Yield the free addresses of a network in order."""
    used = taken(cloud, found.location, found.id) | {found.gateway}
    hosts = ipaddress.ip_network(found.network).hosts()
    return (str(host) for host in hosts if str(host) not in used)


def uplink(cloud: Cloud, found: ExternalNetwork, address: str, metric: int) -> Uplink:
    """Return a leg in a network, at the wanted address or the first free one (503 if none)."""
    wanted = address.partition("/")[0]
    chosen = next((one for one in free(cloud, found) if wanted in ("", one)), None)
    if chosen is None and wanted:
        raise conflict(f"IP address {wanted} is not available in network {found.name}")
    if chosen is None:
        raise RefusedError(503, f"No free external IP address in network {found.name}")
    prefix = ipaddress.ip_network(found.network).prefixlen
    return Uplink(network_id=found.id, address=chosen, prefix=prefix, metric=metric)


def list_networks(cloud: Cloud, call: Call) -> Reply:
    """Answer the external networks of a location."""
    found = cloud.store.find(ExternalNetwork, location=cloud.location(call))
    return Reply({"result": [_item(one) for one in found]})


def _item(one: ExternalNetwork) -> dict[str, object]:
    network = ipaddress.ip_network(one.network)
    return {
        "external_network_id": int(one.id),
        "network": str(network),
        "gateway": one.gateway,
        "dhcp": one.dhcp,
        "subnet_mask": str(network.netmask),
        "name": one.name,
        "public": one.public,
    }


def _of_path(cloud: Cloud, call: Call) -> ExternalNetwork:
    found = network(cloud, cloud.location(call), call.at("external_network_id"))
    if found is None:
        raise not_found(f"External network with id {call.at('external_network_id')}")
    return found


def get_network(cloud: Cloud, call: Call) -> Reply:
    """Answer one external network."""
    return Reply(_item(_of_path(cloud, call)))


def free_addresses(cloud: Cloud, call: Call) -> Reply:
    """Answer the free addresses of an external network."""
    return Reply({"ip_addresses": list(free(cloud, _of_path(cloud, call)))})


def uplinks(cloud: Cloud, call: Call) -> Reply:
    """Answer a cloudspace's legs; their addresses carry the prefix length here."""
    rows = [
        {
            "external_network_id": one.network_id,
            "external_network_ip": f"{one.address}/{one.prefix}",
            "metric": one.metric,
            "type": one.type,
        }
        for one in cloud.cloudspace(call).uplinks
    ]
    return Reply({"result": rows})


def add_uplink(cloud: Cloud, call: Call) -> Reply:
    """Give a cloudspace one more leg."""
    space = cloud.idle(cloud.live_cloudspace(call))
    key = call.text("external_network_id")
    if call.text("external_network_type") != "external":
        raise bad("vcosim adds external networks of type 'external' only")
    found = network(cloud, space.location, key)
    if found is None:
        raise bad(f"External network with id {key} does not exist in {space.location}")
    worst = max((one.metric for one in space.uplinks), default=PRIMARY_METRIC)
    metric = call.number("metric")
    added = uplink(
        cloud, found, call.text("external_network_ip"), worst + 1 if metric is None else metric
    )
    cloud.store.put(replace(space, uplinks=(*space.uplinks, added), updated=cloud.now))
    return Reply(
        {
            "success": True,
            "external_network_id": int(found.id),
            "external_network_ip": f"{added.address}/{added.prefix}",
            "metric": added.metric,
        }
    )


def remove_uplink(cloud: Cloud, call: Call) -> Reply:
    """Take a leg away, unless something still listens on its address."""
    space = cloud.idle(cloud.live_cloudspace(call))
    key, address = call.text("external_network_id"), call.text("external_network_ip")
    bare = address.partition("/")[0]
    left = tuple(one for one in space.uplinks if (one.network_id, one.address) != (key, bare))
    if left == space.uplinks:
        raise not_found(f"External network {key} with IP address {address}")
    if bare in listening(cloud, space):
        raise conflict(f"IP address {bare} is in use by port forwards or load balancers")
    cloud.store.put(replace(space, uplinks=left, updated=cloud.now))
    return done()


def listening(cloud: Cloud, space: Cloudspace) -> set[str]:
    """Return the addresses on which a cloudspace forwards or balances."""
    forwards = cloud.store.find(PortForward, location=space.location, parent=space.id)
    balancers = cloud.store.find(LoadBalancer, location=space.location, parent=space.id)
    return {one.public_ip for one in forwards} | {one.address for one in balancers if one.address}


HANDLERS = {
    "GET {L}/external-networks": list_networks,
    "GET {L}/external-networks/{external_network_id}": get_network,
    "GET {L}/external-networks/{external_network_id}/ip-addresses": free_addresses,
    "GET {CS}/external-networks": uplinks,
    "POST {CS}/external-networks": add_uplink,
    "DELETE {CS}/external-networks": remove_uplink,
}
