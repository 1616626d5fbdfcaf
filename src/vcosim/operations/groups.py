"""Anti-affinity groups: VMs that should not share a host."""

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.records import Group, Vm
from vcosim.reply import Reply, bad, conflict, done, not_found
from vcosim.request import Call


def _group(cloud: Cloud, call: Call) -> Group:
    space = cloud.cloudspace(call)
    key = f"{space.id}/{call.at('group_id')}"
    group = cloud.store.get(Group, space.location, key)
    if group is None:
        raise not_found(f"Anti-affinity group {call.at('group_id')}")
    return group


def _item(group: Group) -> dict[str, object]:
    status = "COMPLETE" if group.members else "INCOMPLETE"
    return {"group_id": group.name, "spread": group.spread, "status": status}


def list_groups(cloud: Cloud, call: Call) -> Reply:
    """Answer the groups of a cloudspace."""
    space = cloud.cloudspace(call)
    found = cloud.store.find(Group, location=space.location, parent=space.id)
    return Reply({"result": [_item(group) for group in found]})


def create_group(cloud: Cloud, call: Call) -> Reply:
    """Make a group under the name the caller chose."""
    space = cloud.live_cloudspace(call)
    name = call.text("group_id")
    if not name or "/" in name:
        raise bad(f"Invalid anti-affinity group id {name!r}")
    key = f"{space.id}/{name}"
    if cloud.store.get(Group, space.location, key):
        raise conflict(f"Anti-affinity group {name} already exists")
    cloud.store.put(
        Group(
            id=key,
            location=space.location,
            parent=space.id,
            name=name,
            created=cloud.now,
            spread=_spread(call),
        )
    )
    return done()


def _spread(call: Call) -> int:
    spread = call.required("spread")
    if spread < 1 and spread != -1:
        raise bad(f"spread must be positive or -1 (infinite), not {spread}")
    return spread


def get_group(cloud: Cloud, call: Call) -> Reply:
    """Answer one group."""
    return Reply(_item(_group(cloud, call)))


def update_group(cloud: Cloud, call: Call) -> Reply:
    """Change the spread."""
    cloud.store.put(replace(_group(cloud, call), spread=_spread(call), updated=cloud.now))
    return done()


def delete_group(cloud: Cloud, call: Call) -> Reply:
    """Remove a group; its VMs stay."""
    cloud.store.drop(_group(cloud, call))
    return done()


def list_members(cloud: Cloud, call: Call) -> Reply:
    """Answer the VMs of a group with their statuses."""
    group = _group(cloud, call)
    found = [cloud.store.get(Vm, group.location, str(one)) for one in group.members]
    return Reply({"vms": [{"vm_id": int(vm.id), "status": vm.status} for vm in found if vm]})


def add_member(cloud: Cloud, call: Call) -> Reply:
    """Put a VM of the same cloudspace into a group; idempotent."""
    group = _group(cloud, call)
    number = call.required("vm_id")
    vm = cloud.store.get(Vm, group.location, str(number))
    if vm is None or vm.parent != group.parent or vm.binned:
        raise not_found(f"Virtual machine with id {number}")
    if number not in group.members:
        cloud.store.put(replace(group, members=(*group.members, number), updated=cloud.now))
    return done()


def remove_member(cloud: Cloud, call: Call) -> Reply:
    """Take a VM out of a group."""
    group = _group(cloud, call)
    number = call.path["vm_id"]
    if number not in group.members:
        raise not_found(f"Virtual machine {number} in anti-affinity group {group.name}")
    left = tuple(one for one in group.members if one != number)
    cloud.store.put(replace(group, members=left, updated=cloud.now))
    return done()


HANDLERS = {
    "GET {CS}/anti-affinity-groups": list_groups,
    "POST {CS}/anti-affinity-groups": create_group,
    "GET {CS}/anti-affinity-groups/{group_id}": get_group,
    "PUT {CS}/anti-affinity-groups/{group_id}": update_group,
    "DELETE {CS}/anti-affinity-groups/{group_id}": delete_group,
    "GET {CS}/anti-affinity-groups/{group_id}/vms": list_members,
    "POST {CS}/anti-affinity-groups/{group_id}/vms": add_member,
    "DELETE {CS}/anti-affinity-groups/{group_id}/vms/{vm_id}": remove_member,
}
