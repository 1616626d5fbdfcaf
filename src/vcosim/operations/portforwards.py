"""Port forwards of a cloudspace's gateway."""

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.records import Cloudspace, LoadBalancer, PortForward, Vm
from vcosim.reply import RefusedError, Reply, bad, conflict, done, not_found
from vcosim.request import Call

LAST_PORT = 65535


def port_is_free(  # noqa: PLR0913 - a socket and who may hold it
    cloud: Cloud, space: Cloudspace, address: str, ports: range, protocol: str, *, own: str
) -> None:
    """Refuse (409) a port that a forward or balancer of the cloudspace already listens on.

    An empty address means all of them.
    """
    forwards = cloud.store.find(PortForward, location=space.location, parent=space.id)
    balancers = cloud.store.find(LoadBalancer, location=space.location, parent=space.id)
    listeners = [
        *((one.id, one.public_ip, _ports(one), one.protocol) for one in forwards),
        *((one.id, one.address, range(one.port, one.port + 1), one.type) for one in balancers),
    ]
    for key, other, theirs, kind in listeners:
        if key == own or kind.upper() != protocol.upper():
            continue
        overlap = ports.start < theirs.stop and theirs.start < ports.stop
        if overlap and (not address or not other or address == other):
            port = max(ports.start, theirs.start)
            raise conflict(
                f"Forward to {other or address or 'all'} with port {port} already exists"
            )


def _ports(one: PortForward) -> range:
    return range(one.public_port, (one.till_public_port or one.public_port) + 1)


def _forward(cloud: Cloud, call: Call) -> PortForward:
    space = cloud.cloudspace(call)
    found = cloud.store.get(PortForward, space.location, call.at("portforward_id"))
    if found is None or found.parent != space.id:
        raise not_found(f"Port forward with id {call.at('portforward_id')}")
    return found


def _item(cloud: Cloud, one: PortForward) -> dict[str, object]:
    vm = None if one.nested else cloud.store.get(Vm, one.location, one.link)
    nested = cloud.store.get(Cloudspace, one.location, one.link) if one.nested else None
    return {
        "portforward_id": one.id,
        "protocol": one.protocol,
        "local_port": one.local_port,
        "public_port": one.public_port,
        "public_ip": one.public_ip,
        "local_ip": vm.ip_address if vm else nested.uplinks[0].address if nested else None,
        "vm_id": int(vm.id) if vm else None,
        "nested_cloudspace_name": nested.name if nested else None,
        "nested_cloudspace_id": nested.id if nested else None,
        "till_public_port": one.till_public_port,
    }


def list_forwards(cloud: Cloud, call: Call) -> Reply:
    """Answer the port forwards of a cloudspace."""
    space = cloud.cloudspace(call)
    found = cloud.store.find(PortForward, location=space.location, parent=space.id)
    return Reply({"result": [_item(cloud, one) for one in found]})


def get_forward(cloud: Cloud, call: Call) -> Reply:
    """Answer one port forward."""
    return Reply(_item(cloud, _forward(cloud, call)))


def create_forward(cloud: Cloud, call: Call) -> Reply:
    """Forward a port, or a range, to a VM or a nested cloudspace."""
    space = cloud.live_cloudspace(call)
    forward = _filled(cloud, call, space, own="")
    cloud.store.put(forward)
    return Reply({"portforward_id": forward.id})


def _filled(cloud: Cloud, call: Call, space: Cloudspace, *, own: str) -> PortForward:
    local, public, till = (
        call.required("local_port"),
        call.required("public_port"),
        call.number("till_public_port"),
    )
    for port in (local, public, public if till is None else till):
        if not 1 <= port <= LAST_PORT:
            raise bad(f"Port {port} must be from 1 to {LAST_PORT}")
    if till is not None and till < public:
        raise bad(f"till_public_port {till} is below public_port {public}")
    address = _public_ip(call, space)
    link, nested = _target(cloud, call, space)
    made = PortForward(
        id=cloud.fresh("port-forward"),
        location=space.location,
        parent=space.id,
        link=link,
        created=cloud.now,
        updated=cloud.now,
        protocol=call.text("protocol"),
        local_port=local,
        public_port=public,
        till_public_port=till,
        public_ip=address,
        nested=nested,
    )
    port_is_free(cloud, space, address, _ports(made), made.protocol, own=own)
    return made


def _public_ip(call: Call, space: Cloudspace) -> str:
    ordered = [one.address for one in sorted(space.uplinks, key=lambda one: one.metric)]
    if not ordered:
        raise bad(f"Cloudspace {space.name} has no external network")
    wanted = call.text("public_ip").partition("/")[0]
    if wanted and wanted not in ordered:
        raise bad(f"IP address {wanted} is not an address of cloudspace {space.name}")
    return wanted or ordered[0]


def _target(cloud: Cloud, call: Call, space: Cloudspace) -> tuple[str, bool]:
    number, nested = call.number("vm_id"), call.text("nested_cs_id")
    if (number is None) == (not nested):
        raise bad("Exactly one of vm_id and nested_cs_id must be given")
    if nested:
        try:
            below = cloud.cloudspace_by_id(call, nested)
        except RefusedError as error:
            raise bad(error.message) from error
        if below.nested_in != space.id:
            raise bad(f"Cloudspace {nested} is not nested in {space.name}")
        return nested, True
    vm = cloud.store.get(Vm, space.location, str(number))
    if vm is None or vm.binned:
        raise not_found(f"Virtual machine with id {number}")
    if vm.parent != space.id:
        raise bad(f"Virtual machine {number} is not in cloudspace {space.name}")
    return vm.id, False


def update_forward(cloud: Cloud, call: Call) -> Reply:
    """Replace a port forward; it gets a new id."""
    old = _forward(cloud, call)
    made = _filled(cloud, call, cloud.live_cloudspace(call), own=old.id)
    cloud.store.drop(old)
    cloud.store.put(replace(made, created=old.created))
    return done()


def delete_forward(cloud: Cloud, call: Call) -> Reply:
    """Remove a port forward and answer the ones that are left."""
    gone = _forward(cloud, call)
    cloud.store.drop(gone)
    left = cloud.store.find(PortForward, location=gone.location, parent=gone.parent)
    return Reply({"result": [_left(cloud, one) for one in left]})


def _left(cloud: Cloud, one: PortForward) -> dict[str, object]:
    item = _item(cloud, one)
    nested = cloud.store.get(Cloudspace, one.location, one.link) if one.nested else None
    vm = None if one.nested else cloud.store.get(Vm, one.location, one.link)
    del item["till_public_port"]
    return {
        **item,
        "range_length": len(_ports(one)),
        "machine_name": vm.name if vm else None,
        "nested_cloudspace_id": nested.number if nested else None,
    }


HANDLERS = {
    "GET {CS}/portforwards": list_forwards,
    "POST {CS}/portforwards": create_forward,
    "GET {CS}/portforwards/{portforward_id}": get_forward,
    "PUT {CS}/portforwards/{portforward_id}": update_forward,
    "DELETE {CS}/portforwards/{portforward_id}": delete_forward,
}
