"""Free TCP ports on 127.0.0.1 that outgoing connections will not take by accident."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kubelocal.errors import StartFailed

_LOW: Final = 15_000
_HIGH: Final = 65_536
_ENOUGH: Final = 1_000
_EPHEMERAL_START: Final = 32_768
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


FindPorts = Callable[[int], tuple[int, ...]]
"""Gives so many ports; a test gives some that are taken."""


def free_ports(count: int) -> tuple[int, ...]:
    """Find so many different ports that can be bound now.

    They lie below the range the kernel gives to outgoing connections, so that a server stopped for
    a while finds its port again. Somebody else may still bind one before its user does: whoever
    starts a server is ready to ask for another port.
    """
    with ExitStack() as held:
        found: list[int] = []
        for port in random.sample(_candidates(), len(_candidates())):
            if len(found) == count:
                break
            taken = held.enter_context(socket.socket())
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
        if len(found) < count:
            raise StartFailed(
                f"only {len(found)} of {count} TCP ports are free on 127.0.0.1 in "
                f"{_candidates()}; end what holds them and start again"
            )
        return tuple(found)


def _candidates() -> range:
    try:
        first = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError):
        first = _EPHEMERAL_START
    return range(_LOW, first) if first - _LOW >= _ENOUGH else range(_LOW, _HIGH)
