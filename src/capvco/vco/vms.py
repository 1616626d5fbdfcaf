"""Virtual machines of a cloudspace: life and death, notes, the agent inside, vGPUs."""

import base64
import binascii
from collections.abc import Mapping, Sequence

from capvco.vco.call import Call, Pace, read
from capvco.vco.client import Client
from capvco.vco.envelopes import Model, Result
from capvco.vco.errors import Malformed
from capvco.vco.images import BootType
from capvco.vco.models import VM, VMID, AgentStatus, Note, Output, VMItem

_LIST = "/customers/{customer_id}/cloudspaces/{cloudspace_id}/vms"
_ONE = _LIST + "/{vm_id}"
# Not 503: that may come when half of the VM is made.
_CAPACITY = frozenset({400, 409})
FILE_LIMIT = 2 * 1024 * 1024
"""Most bytes of a file that go in or out at once."""
_SHORTEST_SECRET = 8


class NewVM(Model, frozen=True):
    """What a VM is made with; its user data stays out of the repr."""

    name: str
    description: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    image_id: int
    userdata: Mapping[str, object] | None = None
    """cloud-config, as an object: the way without a limit of length."""
    user_data: str | None = None
    """User data as text, in the query: short ones only, proxies refuse long URLs."""
    hostname: str | None = None
    boot_type: BootType = "bios"
    start_vm: bool = False
    enable_vm_agent: bool = True
    private_ip: str | None = None

    def __repr__(self) -> str:
        return f"NewVM(name={self.name!r}, image_id={self.image_id}, vcpus={self.vcpus})"

    def hidden(self) -> tuple[str, ...]:
        """List every text of the user data that is long enough to be a secret."""
        return tuple(dict.fromkeys((*_texts(self.userdata), *_texts(self.user_data))))


class VMs:
    """The virtual machines of a customer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(
        self, cloudspace_id: str, *, include_deleted: bool = False, only_deleted: bool = False
    ) -> tuple[VMItem, ...]:
        """List the VMs of a cloudspace, those in the recycle bin only if asked for."""
        call = read(
            _LIST,
            path={"cloudspace_id": cloudspace_id},
            include_deleted=include_deleted,
            only_deleted=only_deleted,
        )
        return (await self._client.send(call, Result[VMItem])).result

    async def get(self, cloudspace_id: str, vm_id: int) -> VM:
        """Read one VM. Raises NotFound, also for one in the recycle bin."""
        return await self._client.send(read(_ONE, path=_path(cloudspace_id, vm_id)), VM)

    async def create(self, cloudspace_id: str, vm: NewVM) -> int:
        """Create a VM and return its id; blocks for minutes, or returns early.

        Raises Conflict if the name is taken, also by a VM in the recycle bin.
        """
        call = Call(
            method="POST",
            route=_LIST,
            path={"cloudspace_id": cloudspace_id},
            query={
                "name": vm.name,
                "description": vm.description,
                "vcpus": vm.vcpus,
                "memory": vm.memory_mib,
                "disk_size": vm.disk_gib,
                "image_id": vm.image_id,
                "hostname": vm.hostname,
                "boot_type": vm.boot_type,
                "start_vm": vm.start_vm,
                "enable_vm_agent": vm.enable_vm_agent,
                "private_ip": vm.private_ip,
                "user_data": vm.user_data,
            },
            body=None if vm.userdata is None else {"userdata": vm.userdata},
            pace=Pace.CREATE,
            capacity=_CAPACITY,
            hidden=vm.hidden(),
        )
        return (await self._client.send(call, VMID)).vm_id

    async def start(self, cloudspace_id: str, vm_id: int) -> None:
        """Start a VM."""
        await self._post(cloudspace_id, vm_id, "/start")

    async def stop(self, cloudspace_id: str, vm_id: int, *, force: bool = False) -> None:
        """Stop a VM; with force, as if its power were cut."""
        await self._post(cloudspace_id, vm_id, "/stop", force=force)

    async def delete(
        self,
        cloudspace_id: str,
        vm_id: int,
        *,
        permanently: bool,
        detach_disks: bool = False,
        detach_gpu: bool = False,
    ) -> None:
        """Delete a VM; without detach_gpu, what becomes of its vGPUs is not documented."""
        call = Call(
            method="DELETE",
            route=_ONE,
            path=_path(cloudspace_id, vm_id),
            query={
                "permanently": permanently,
                "detach_disks": detach_disks,
                "detach_gpu": detach_gpu,
            },
        )
        await self._client.ack(call)

    async def restore(self, cloudspace_id: str, vm_id: int, *, reason: str) -> None:
        """Take a VM out of the recycle bin; it comes back stopped, perhaps with a new address."""
        call = Call(
            method="PUT",
            route=_ONE + "/restore",
            path=_path(cloudspace_id, vm_id),
            query={"reason": reason},
        )
        await self._client.ack(call)

    async def attach_vgpu(self, cloudspace_id: str, vm_id: int, vgpu_id: str) -> None:
        """Attach a reserved vGPU to a stopped VM."""
        await self._vgpu("POST", cloudspace_id, vm_id, vgpu_id)

    async def detach_vgpu(self, cloudspace_id: str, vm_id: int, vgpu_id: str) -> None:
        """Detach a vGPU from a VM; it stays reserved."""
        await self._vgpu("DELETE", cloudspace_id, vm_id, vgpu_id)

    async def notes(self, cloudspace_id: str, vm_id: int) -> tuple[Note, ...]:
        """List the notes on a VM."""
        call = read(_ONE + "/notes", path=_path(cloudspace_id, vm_id))
        return (await self._client.send(call, Result[Note])).result

    async def add_note(self, cloudspace_id: str, vm_id: int, *, title: str, content: str) -> None:
        """Add a note to a VM; its id is found in the list afterwards."""
        call = Call(
            method="POST",
            route=_ONE + "/notes",
            path=_path(cloudspace_id, vm_id),
            body={"title": title, "content": content},
        )
        await self._client.ack(call)

    async def agent(self, cloudspace_id: str, vm_id: int) -> str:
        """Read the state of the agent inside; RUNNING is the good one."""
        call = read(_ONE + "/agent", path=_path(cloudspace_id, vm_id))
        return (await self._client.send(call, AgentStatus)).status

    async def execute(
        self, cloudspace_id: str, vm_id: int, *, command: str, args: Sequence[str] = ()
    ) -> str:
        """Run a command inside and return its output. Raises Refused while there is no agent."""
        call = Call(
            method="POST",
            route=_ONE + "/exec",
            path=_path(cloudspace_id, vm_id),
            body={"command": command, "args": list(args)},
            pace=Pace.CREATE,
            hidden=_texts(list(args)),
        )
        return (await self._client.send(call, Output)).result

    async def read_file(
        self,
        cloudspace_id: str,
        vm_id: int,
        *,
        filepath: str,
        size: int = FILE_LIMIT,
        seek: int = 0,
    ) -> bytes:
        """Read at most `size` bytes of a file inside, from `seek` on."""
        call = read(
            _ONE + "/file",
            path=_path(cloudspace_id, vm_id),
            filepath=filepath,
            size=size,
            seek=seek,
        )
        output = await self._client.send(call, Output)
        try:
            return base64.b64decode(output.result, validate=True)
        except (binascii.Error, ValueError):
            raise Malformed(call.method, call.route, 200, "the content is not base64") from None

    async def write_file(
        self, cloudspace_id: str, vm_id: int, *, filepath: str, content: bytes, append: bool = False
    ) -> None:
        """Write a file inside, at most FILE_LIMIT bytes at once. Raises ValueError beyond that."""
        if len(content) > FILE_LIMIT:
            raise ValueError(
                f"{len(content)} bytes for {filepath}: at most {FILE_LIMIT} go at once, append more"
            )
        encoded = base64.b64encode(content).decode()
        call = Call(
            method="POST",
            route=_ONE + "/file",
            path=_path(cloudspace_id, vm_id),
            body={"filepath": filepath, "content": encoded, "append": append},
            hidden=(encoded,) if encoded else (),
        )
        await self._client.ack(call)

    async def _post(self, cloudspace_id: str, vm_id: int, action: str, **query: bool) -> None:
        path = _path(cloudspace_id, vm_id)
        await self._client.ack(Call(method="POST", route=_ONE + action, path=path, query=query))

    async def _vgpu(self, method: str, cloudspace_id: str, vm_id: int, vgpu_id: str) -> None:
        path = {**_path(cloudspace_id, vm_id), "vgpu_id": vgpu_id}
        await self._client.do(Call(method=method, route=_ONE + "/vgpus/{vgpu_id}", path=path))


def _path(cloudspace_id: str, vm_id: int) -> dict[str, str | int]:
    return {"cloudspace_id": cloudspace_id, "vm_id": vm_id}


def _texts(value: object) -> tuple[str, ...]:
    """Collect the texts inside a value, whole and by line, that may be secrets."""
    if isinstance(value, str):
        found = (value, *(line.strip() for line in value.splitlines()))
        return tuple(text for text in found if len(text) >= _SHORTEST_SECRET)
    if isinstance(value, Mapping):
        return tuple(text for item in value.values() for text in _texts(item))
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(text for item in value for text in _texts(item))
    return ()
