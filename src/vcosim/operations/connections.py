"""Connected cloudspaces: two cloudspaces, also of two locations, that reach each other."""

import ipaddress

from vcosim.cloud import Cloud
from vcosim.records import Cloudspace, Connection
from vcosim.reply import RefusedError, Reply, bad, conflict, not_found
from vcosim.request import Call


def _key(space: Cloudspace, other: str) -> str:
    return f"{space.id}/{other}"


def list_connections(cloud: Cloud, call: Call) -> Reply:
    """Answer the cloudspaces connected to this one."""
    space = cloud.cloudspace(call)
    found = cloud.store.find(Connection, location=space.location, parent=space.id)
    return Reply({"result": [_item(cloud, call, one) for one in found]})


def _item(cloud: Cloud, call: Call, one: Connection) -> dict[str, object]:
    other = cloud.cloudspace_by_id(call, one.link)
    return {
        "cloudspace_id": other.id,
        "name": other.name,
        "location": other.location,
        "local_public_address": one.local_address,
        "remote_public_address": one.remote_address,
        "remote_private_network": other.private_network,
    }


def connect(cloud: Cloud, call: Call) -> Reply:
    """Connect two cloudspaces over their external addresses; both sides then list it."""
    space = cloud.live_cloudspace(call)
    other = cloud.cloudspace_by_id(call, call.text("connected_cloudspace_id"))
    if other.id == space.id:
        raise bad("A cloudspace cannot be connected to itself")
    if other.status != "DEPLOYED":
        raise bad(f"Cloudspace {other.name} is {other.status}, it must be DEPLOYED")
    local, remote = call.text("local_cloudspace_ip"), call.text("remote_cloudspace_ip")
    for side, address in ((space, local), (other, remote)):
        if address.partition("/")[0] not in {leg.address for leg in side.uplinks}:
            raise bad(f"IP address {address} is not an address of cloudspace {side.name}")
    if cloud.store.get(Connection, space.location, _key(space, other.id)):
        raise conflict(f"Cloudspaces {space.name} and {other.name} are already connected")
    mine, theirs = (ipaddress.ip_network(one.private_network) for one in (space, other))
    if mine.overlaps(theirs):
        raise conflict(f"Private networks {mine} and {theirs} overlap")
    for here, there, own, far in ((space, other, local, remote), (other, space, remote, local)):
        cloud.store.put(
            Connection(
                id=_key(here, there.id),
                location=here.location,
                parent=here.id,
                link=there.id,
                created=cloud.now,
                local_address=own,
                remote_address=far,
            )
        )
    return Reply(None, status=201)


def _connection(cloud: Cloud, call: Call) -> Connection:
    space = cloud.cloudspace(call)
    key = _key(space, call.at("connected_cloudspace_id"))
    found = cloud.store.get(Connection, space.location, key)
    if found is None:
        raise not_found(f"Connection to cloudspace {call.at('connected_cloudspace_id')}")
    return found


def status(cloud: Cloud, call: Call) -> Reply:
    """Answer whether the other side can be reached."""
    other = cloud.cloudspace_by_id(call, _connection(cloud, call).link)
    return Reply({"status": "CONNECTED" if other.status == "DEPLOYED" else "UNKNOWN"})


def disconnect(cloud: Cloud, call: Call) -> Reply:
    """Remove both sides of a connection."""
    one = _connection(cloud, call)
    given = (call.text("local_cloudspace_ip"), call.text("remote_cloudspace_ip"))
    if given != (one.local_address, one.remote_address):
        raise RefusedError(403, f"The connection is not between {given[0]} and {given[1]}")
    other = cloud.cloudspace_by_id(call, one.link)
    cloud.store.drop(one)
    if back := cloud.store.get(Connection, other.location, _key(other, one.parent)):
        cloud.store.drop(back)
    return Reply(None, status=204)


HANDLERS = {
    "GET {CS}/connected-cloudspaces": list_connections,
    "POST {CS}/connected-cloudspaces": connect,
    "GET {CS}/connected-cloudspaces/{connected_cloudspace_id}": status,
    "DELETE {CS}/connected-cloudspaces/{connected_cloudspace_id}": disconnect,
}
