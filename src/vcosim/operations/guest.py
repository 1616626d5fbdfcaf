"""The guest agent: its status, commands, files.

No guest runs here. ``echo``, ``hostname`` and ``cat`` of a written file answer as one expects,
every other command answers an empty text.
"""

import base64
import binascii

from msgspec.structs import replace

from vcosim.cloud import Cloud, hex_id
from vcosim.lifecycle import key
from vcosim.operations.vms import agent_status
from vcosim.records import GuestFile, Vm
from vcosim.reply import RefusedError, Reply, bad, done, not_found
from vcosim.request import Call

MOST_BYTES = 2 * 1024 * 1024


def get_agent(cloud: Cloud, call: Call) -> Reply:
    """Answer whether the guest agent runs."""
    return Reply({"status": agent_status(cloud, cloud.vm(call))})


def put_agent(cloud: Cloud, call: Call) -> Reply:
    """Switch the guest agent on or off."""
    vm = cloud.idle_vm(call)
    enabled = call.body.get("enabled", vm.agent_enabled)
    cloud.store.put(replace(vm, agent_enabled=enabled, updated=cloud.now))
    return done()


def _guest(cloud: Cloud, call: Call) -> Vm:
    vm = cloud.vm(call)
    status = agent_status(cloud, vm)
    if status != "RUNNING":
        raise RefusedError(
            cloud.switches.agent_status_code,
            f"VM agent must be enabled and running. Agent status: {status}",
        )
    return vm


def execute(cloud: Cloud, call: Call) -> Reply:
    """Run a command, as far as a guest that does not exist can."""
    vm = _guest(cloud, call)
    arguments = call.body.get("args", [])
    match call.body["command"].rpartition("/")[2]:
        case "echo":
            return Reply({"result": " ".join(arguments) + "\n"})
        case "hostname":
            return Reply({"result": vm.hostname + "\n"})
        case "cat":
            return Reply({"result": "".join(_text(cloud, vm, path) for path in arguments)})
    return Reply({"result": ""})


def _text(cloud: Cloud, vm: Vm, path: str) -> str:
    return base64.b64decode(_file(cloud, vm, path).content).decode(errors="replace")


def _file(cloud: Cloud, vm: Vm, path: str) -> GuestFile:
    found = cloud.store.get(GuestFile, vm.location, _file_id(vm, path))
    if found is None:
        raise not_found(f"File {path}")
    return found


def _file_id(vm: Vm, path: str) -> str:
    return hex_id(f"{key(vm)}:{path}")


def read_file(cloud: Cloud, call: Call) -> Reply:
    """Answer a piece of a file, in base64."""
    vm = _guest(cloud, call)
    size, seek = call.required("size"), call.number("seek") or 0
    if not 0 <= size <= MOST_BYTES or seek < 0:
        raise bad(f"size must be from 0 to {MOST_BYTES} and seek not negative")
    content = base64.b64decode(_file(cloud, vm, call.text("filepath")).content)
    return Reply({"result": base64.b64encode(content[seek : seek + size]).decode()})


def write_file(cloud: Cloud, call: Call) -> Reply:
    """Write or extend a file from base64."""
    vm = _guest(cloud, call)
    path = call.body["filepath"]
    try:
        added = base64.b64decode(call.body["content"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad("content is not base64") from error
    if len(added) > MOST_BYTES:
        raise bad(f"content is larger than {MOST_BYTES} bytes")
    old = cloud.store.get(GuestFile, vm.location, _file_id(vm, path))
    before = base64.b64decode(old.content) if old and call.body["append"] else b""
    cloud.store.put(
        GuestFile(
            id=_file_id(vm, path),
            location=vm.location,
            parent=key(vm),
            name=path,
            created=cloud.now,
            content=base64.b64encode(before + added).decode(),
        )
    )
    return done()


def delete_file(cloud: Cloud, call: Call) -> Reply:
    """Remove a file."""
    vm = _guest(cloud, call)
    cloud.store.drop(_file(cloud, vm, call.text("filepath")))
    return done()


HANDLERS = {
    "GET {VM}/agent": get_agent,
    "PUT {VM}/agent": put_agent,
    "POST {VM}/exec": execute,
    "GET {VM}/file": read_file,
    "POST {VM}/file": write_file,
    "DELETE {VM}/file": delete_file,
}
