"""The operations of the cloud: ``METHOD route`` → handler.

A handler gets the cloud at one moment and a call that fits the description. It reads and writes the
store, returns a Reply or raises RefusedError; it is run inside one transaction.
"""

from collections.abc import Callable

from vcosim.cloud import Cloud
from vcosim.operations import (
    cloudspaces,
    connections,
    consumption,
    groups,
    guest,
    identity,
    images,
    ingress,
    networks,
    notes,
    portforwards,
    recycle,
    vgpus,
    vm_actions,
    vm_create,
    vms,
)
from vcosim.reply import Reply
from vcosim.request import Call

Handler = Callable[[Cloud, Call], Reply]
MODULES = (
    cloudspaces, connections, consumption, groups, guest, identity, images, ingress, networks,
    notes, portforwards, recycle, vgpus, vm_actions, vm_create, vms,
)  # fmt: skip
ABBREVIATIONS = (
    ("{VM}", "{CS}/vms/{vm_id}"),
    ("{CS}", "{C}/cloudspaces/{cloudspace_id}"),
    ("{L}", "{C}/locations/{location}"),
    ("{C}", "/customers/{customer_id}"),
)


def _expanded(key: str) -> str:
    for short, long in ABBREVIATIONS:
        key = key.replace(short, long)
    return key


HANDLERS: dict[str, Handler] = {
    _expanded(key): handler for module in MODULES for key, handler in module.HANDLERS.items()
}
