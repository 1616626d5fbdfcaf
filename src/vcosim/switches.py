"""Switches: where the real cloud's behaviour is unknown or a matter of speed, one chooses here.

Every field of ``Switches`` is one switch and has one line in ``HELP``; docs/vcosim.md is tested
against both.
"""

from typing import Literal, get_args, get_type_hints

import msgspec


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All switches with their defaults: what the platform most likely does."""

    replies: Literal["blocking", "early"] = "blocking"
    attach_needs_halted: bool = True
    no_capacity_status: Literal[400, 409, 503] = 409
    unattached_vm: Literal["null", "empty", "null-id"] = "null"
    delete_with_vgpu: Literal["bin", "refuse", "release", "keep"] = "bin"
    page_cap: int = 0
    vgpu_name_unique: bool = False
    bin_reserves_names: bool = True
    busy_status: Literal[400, 409, 423] = 409
    no_schema_body: Literal["success", "null", "empty"] = "success"
    image_create_reply: Literal["id", "none"] = "id"
    image_ends: str = "CREATED"
    image_boot_type: Literal["asked", "bios", "uefi", "uefi-secure-boot"] = "asked"
    upload_part_size: int = 64 * 1024 * 1024
    upload_life_seconds: float = 0.0
    absent_fields: Literal["null", "omit"] = "null"
    pool_in_use: Literal["refuse", "allow"] = "refuse"
    duplicate_ingress_names: bool = True
    user_data_mapping: bool = True
    vm_vgpu_limit: int = 0
    agent_status_code: int = 400
    refresh_needs_offline_access: bool = True
    token_seconds: float = 86400.0
    requests_per_second: float = 0.0
    reserve_seconds: float = 0.0
    attach_seconds: float = 0.2
    detach_seconds: float = 0.2
    vgpu_delete_seconds: float = 0.1
    deploy_seconds: float = 0.5
    start_seconds: float = 0.3
    stop_seconds: float = 0.3
    delete_seconds: float = 0.3
    restore_seconds: float = 0.2
    cloudspace_seconds: float = 0.4
    image_seconds: float = 0.3
    agent_seconds: float = 0.5


HELP: dict[str, str] = {
    "replies": (
        "blocking: a call answers when its work is done; early: at once, while the object is moving"
    ),
    "attach_needs_halted": (
        "attach and detach of a vGPU, and deleting an attached one, are refused (409) "
        "while the VM is not HALTED"
    ),
    "no_capacity_status": "status of a reservation for which the card has no room",
    "unattached_vm": (
        "`virtual_machine` of an unattached vGPU: null, empty ({}) or null-id (an object of nulls)"
    ),
    "delete_with_vgpu": (
        "VM deleted without `detach_gpu` while vGPUs are attached: bin (they go to the bin with it "
        "and are destroyed with it), refuse (400), release (destroyed at once), "
        "keep (detached, still held)"
    ),
    "page_cap": "largest page of a paginated list, whatever `limit` asks; 0 means none",
    "vgpu_name_unique": "a vGPU name may be used once per customer and location (409)",
    "bin_reserves_names": "names of objects in the recycle bin stay taken",
    "busy_status": "status of the refusal while another action is under way on the object",
    "no_schema_body": (
        'body of answers without a schema: success ({"success": true}), null, or empty'
    ),
    "image_create_reply": (
        'image creation answers {"image_id": n} (id) or like `no_schema_body` (none)'
    ),
    "image_ends": "status in which the import of an image ends, e.g. ERROR",
    "image_boot_type": "boot type that imported images get, whatever was asked",
    "upload_part_size": "size of the parts that an image is to be uploaded in, in bytes",
    "upload_life_seconds": "time after which an unfinished upload is forgotten (404); 0: never",
    "absent_fields": "absent optional values in answers are null, or left out (omit)",
    "pool_in_use": "deleting a server pool that a load balancer uses: refuse (409) or allow",
    "duplicate_ingress_names": "server pools and load balancers may share a name; off: 409",
    "user_data_mapping": "query `user_data` must be a YAML mapping (400 otherwise)",
    "vm_vgpu_limit": "most vGPUs per VM (400 beyond); 0 means no limit",
    "agent_status_code": "status of agent calls while the guest agent is not running",
    "refresh_needs_offline_access": (
        "only tokens issued with scope offline_access can be refreshed (400 otherwise)"
    ),
    "token_seconds": "longest life of a token",
    "requests_per_second": "calls per second and client before 429 with Retry-After; 0: no limit",
    "reserve_seconds": "time to reserve a vGPU",
    "attach_seconds": "time to attach a vGPU to a VM",
    "detach_seconds": "time to detach a vGPU from a VM",
    "vgpu_delete_seconds": "time to delete a vGPU",
    "deploy_seconds": "time from creating a VM to HALTED; a start follows with `start_seconds`",
    "start_seconds": "time to start a VM (also reboot and reset)",
    "stop_seconds": "time to stop a VM",
    "delete_seconds": "time to delete a VM or a cloudspace",
    "restore_seconds": "time to restore something from the recycle bin",
    "cloudspace_seconds": "time to deploy a cloudspace",
    "image_seconds": "time to import an image",
    "agent_seconds": "time from RUNNING until the guest agent answers",
}


def changed(switches: Switches, values: dict[str, object]) -> Switches:
    """Return the switches with some values replaced; texts are read as the switch's type.

    Raises ValueError naming the switch and what it takes.
    """
    current = msgspec.structs.asdict(switches)
    for name, value in values.items():
        if name not in current:
            raise ValueError(f"no switch {name!r}; there are: {', '.join(sorted(current))}")
        current[name] = _lowered(value)
    try:
        return msgspec.convert(current, Switches, strict=False)
    except msgspec.ValidationError as error:
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        takes = ", ".join(f"{name}: {_takes(name)}" for name in values)
        raise ValueError(f"cannot set {given} ({takes}): {error}") from error


def _takes(name: str) -> str:
    """Say which values a switch takes."""
    kind = get_type_hints(Switches)[name]
    choices = get_args(kind)
    return " or ".join(str(one) for one in choices) if choices else f"a {kind.__name__}"


def _lowered(value: object) -> object:
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    return words.get(value.lower(), value) if isinstance(value, str) else value


def parsed(assignments: list[str]) -> dict[str, object]:
    """Read ``name=value`` texts; raises ValueError for one without ``=``."""
    pairs: dict[str, object] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not name=value")
        pairs[name.strip()] = value.strip()
    return pairs
