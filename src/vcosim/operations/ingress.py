"""Server pools and layer-4 load balancers."""

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.operations.portforwards import LAST_PORT, port_is_free
from vcosim.records import Cloudspace, LoadBalancer, Record, ServerPool
from vcosim.reply import Reply, bad, conflict, done, not_found
from vcosim.request import Call


def _pool(cloud: Cloud, space: Cloudspace, key: str) -> ServerPool:
    pool = cloud.store.get(ServerPool, space.location, key)
    if pool is None or pool.parent != space.id:
        raise not_found(f"Server pool with id {key}")
    return pool


def _pool_of_path(cloud: Cloud, call: Call) -> ServerPool:
    return _pool(cloud, cloud.cloudspace(call), call.at("serverpool_id"))


def _name_is_free(
    cloud: Cloud, kind: type[Record], space: Cloudspace, name: str, own: str = ""
) -> None:
    if not name.strip():
        raise bad("name cannot be empty")
    if cloud.switches.duplicate_ingress_names:
        return
    if any(one.id != own for one in cloud.store.find(kind, parent=space.id, name=name)):
        raise conflict(f"{kind.kind} with name {name} already exists")


def list_pools(cloud: Cloud, call: Call) -> Reply:
    """Answer the server pools of a cloudspace, without their hosts."""
    space = cloud.cloudspace(call)
    found = cloud.store.find(ServerPool, location=space.location, parent=space.id)
    rows = [{"serverpool_id": one.id, "name": one.name, "locked": one.locked} for one in found]
    return Reply({"result": rows})


def create_pool(cloud: Cloud, call: Call) -> Reply:
    """Make an empty server pool."""
    space = cloud.live_cloudspace(call)
    _name_is_free(cloud, ServerPool, space, call.text("name"))
    pool = ServerPool(
        id=cloud.fresh("server-pool"),
        location=space.location,
        parent=space.id,
        name=call.text("name"),
        created=cloud.now,
        description=call.text("description"),
    )
    cloud.store.put(pool)
    return Reply({"id": pool.id})


def get_pool(cloud: Cloud, call: Call) -> Reply:
    """Answer one server pool with its hosts."""
    pool = _pool_of_path(cloud, call)
    return Reply(
        {
            "serverpool_id": pool.id,
            "name": pool.name,
            "description": pool.description,
            "locked": pool.locked,
            "hosts": _hosts(pool),
        }
    )


def _hosts(pool: ServerPool) -> list[dict[str, str]]:
    return [{"host_id": key, "address": address} for key, address in pool.hosts]


def update_pool(cloud: Cloud, call: Call) -> Reply:
    """Change name, description or lock of a server pool."""
    pool = _pool_of_path(cloud, call)
    name = call.text("name") or pool.name
    _name_is_free(cloud, ServerPool, cloud.cloudspace(call), name, pool.id)
    described = call.text("description") if "description" in call.query else pool.description
    changed = replace(pool, name=name, description=described, locked=call.flag("locked"))
    cloud.store.put(replace(changed, updated=cloud.now))
    return done()


def delete_pool(cloud: Cloud, call: Call) -> Reply:
    """Remove a server pool."""
    pool = _pool_of_path(cloud, call)
    _unlocked(pool, pool.locked)
    users = cloud.store.find(LoadBalancer, location=pool.location, link=pool.id)
    if users and cloud.switches.pool_in_use == "refuse":
        raise conflict(f"Server pool {pool.name} is used by load balancer {users[0].name}")
    cloud.store.drop(pool)
    return done()


def _unlocked(record: Record, locked: bool) -> None:
    if locked:
        raise conflict(f"{record.kind} {record.name} is locked")


def list_hosts(cloud: Cloud, call: Call) -> Reply:
    """Answer the hosts of a server pool."""
    return Reply({"result": _hosts(_pool_of_path(cloud, call))})


def add_host(cloud: Cloud, call: Call) -> Reply:
    """Add a host; the same address may be added more than once."""
    pool = _pool_of_path(cloud, call)
    _unlocked(pool, pool.locked)
    address = call.text("address").strip()
    if not address:
        raise bad("address cannot be empty")
    host = (cloud.fresh("host"), address)
    cloud.store.put(replace(pool, hosts=(*pool.hosts, host), updated=cloud.now))
    return Reply({"host_id": host[0], "address": address})


def remove_host(cloud: Cloud, call: Call) -> Reply:
    """Take a host out of a server pool."""
    pool = _pool_of_path(cloud, call)
    _unlocked(pool, pool.locked)
    left = tuple(one for one in pool.hosts if one[0] != call.at("host_id"))
    if left == pool.hosts:
        raise not_found(f"Host with id {call.at('host_id')}")
    cloud.store.put(replace(pool, hosts=left, updated=cloud.now))
    return done()


def _balancer(cloud: Cloud, call: Call) -> LoadBalancer:
    space = cloud.cloudspace(call)
    found = cloud.store.get(LoadBalancer, space.location, call.at("loadbalancer_id"))
    if found is None or found.parent != space.id:
        raise not_found(f"Load balancer with id {call.at('loadbalancer_id')}")
    return found


def list_balancers(cloud: Cloud, call: Call) -> Reply:
    """Answer the load balancers of a cloudspace in short."""
    space = cloud.cloudspace(call)
    found = cloud.store.find(LoadBalancer, location=space.location, parent=space.id)
    return Reply({"result": [_short(cloud, one) for one in found]})


def _short(cloud: Cloud, one: LoadBalancer) -> dict[str, object]:
    pool = cloud.store.get(ServerPool, one.location, one.link)
    return {
        "loadbalancer_id": one.id,
        "name": one.name,
        "serverpool_name": pool.name if pool else None,
        "locked": one.locked,
        "type": one.type,
    }


def create_balancer(cloud: Cloud, call: Call) -> Reply:
    """Make a load balancer on a free port."""
    space = cloud.live_cloudspace(call)
    balancer = LoadBalancer(
        id=cloud.fresh("load-balancer"), location=space.location, parent=space.id, created=cloud.now
    )
    cloud.store.put(_filled(cloud, call, space, balancer))
    return Reply({"id": balancer.id})


def _filled(cloud: Cloud, call: Call, space: Cloudspace, one: LoadBalancer) -> LoadBalancer:
    body = call.body
    front, back = body.get("front_end"), body.get("back_end")
    if front is None or back is None:
        raise bad("front_end and back_end are required for a load balancer")
    if body["type"].upper() not in ("TCP", "UDP"):
        raise bad(f"type must be TCP or UDP, not {body['type']!r}")
    _name_is_free(cloud, LoadBalancer, space, body["name"], one.id)
    pool = _pool(cloud, space, back["serverpool_id"])
    for port in (front["port"], back["target_port"]):
        if not 1 <= port <= LAST_PORT:
            raise bad(f"Port {port} must be from 1 to {LAST_PORT}")
    address = front.get("ip_address", "").partition("/")[0]
    if address and address not in {leg.address for leg in space.uplinks}:
        raise bad(f"IP address {address} is not an address of cloudspace {space.name}")
    ports = range(front["port"], front["port"] + 1)
    port_is_free(cloud, space, address, ports, body["type"], own=one.id)
    return replace(
        one,
        name=body["name"],
        description=body.get("description", ""),
        locked=body.get("locked", False),
        type=body["type"],
        port=front["port"],
        address=address,
        tls=front.get("tls"),
        link=pool.id,
        target_port=back["target_port"],
        updated=cloud.now,
    )


def get_balancer(cloud: Cloud, call: Call) -> Reply:
    """Answer one load balancer; it listens on all addresses where ip_address is null."""
    one = _balancer(cloud, call)
    return Reply(
        {
            "loadbalancer_id": one.id,
            "name": one.name,
            "description": one.description,
            "locked": one.locked,
            "type": one.type,
            "front_end": {
                "port": one.port,
                "ip_address": one.address or None,
                "tls": one.tls,
            },
            "back_end": {"serverpool_id": one.link, "target_port": one.target_port},
        }
    )


def update_balancer(cloud: Cloud, call: Call) -> Reply:
    """Replace all of a load balancer but its id."""
    one = _balancer(cloud, call)
    _unlocked(one, one.locked and call.body.get("locked", False))
    cloud.store.put(_filled(cloud, call, cloud.live_cloudspace(call), one))
    return done()


def delete_balancer(cloud: Cloud, call: Call) -> Reply:
    """Remove a load balancer; its server pool stays."""
    one = _balancer(cloud, call)
    _unlocked(one, one.locked)
    cloud.store.drop(one)
    return done()


POOLS = "{CS}/ingress/server-pools"
BALANCERS = "{CS}/ingress/load-balancers"
HANDLERS = {
    f"GET {POOLS}": list_pools,
    f"POST {POOLS}": create_pool,
    f"GET {POOLS}/{{serverpool_id}}": get_pool,
    f"PUT {POOLS}/{{serverpool_id}}": update_pool,
    f"DELETE {POOLS}/{{serverpool_id}}": delete_pool,
    f"GET {POOLS}/{{serverpool_id}}/hosts": list_hosts,
    f"POST {POOLS}/{{serverpool_id}}/hosts": add_host,
    f"DELETE {POOLS}/{{serverpool_id}}/hosts/{{host_id}}": remove_host,
    f"GET {BALANCERS}": list_balancers,
    f"POST {BALANCERS}": create_balancer,
    f"GET {BALANCERS}/{{loadbalancer_id}}": get_balancer,
    f"PUT {BALANCERS}/{{loadbalancer_id}}": update_balancer,
    f"DELETE {BALANCERS}/{{loadbalancer_id}}": delete_balancer,
}
