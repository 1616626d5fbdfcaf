"""The condition GPUDriverReady: what the GPU step on the node reports, asked of the VM agent.

A look aside: it waits for little, at most a few are under way, and nothing depends on it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Proposed
from capvco.bootstrap.gpu_result import RESULT_FILE, RESULT_LIMIT, GPUResult, parse
from capvco.controllers.turns import Turns
from capvco.runtime.kinds import Key
from capvco.services.cloud import Cloud
from capvco.vco.errors import VCOError

_MOST = 2
"""Looks at a time: a pool that comes up must not use the account's rate for this."""


@dataclass
class DriverLooks:
    """Reads results of the GPU step, a few at a time."""

    clock: Callable[[], float] = time.time
    timeout: float = 5.0
    """Seconds that one look may take, all attempts together."""
    _turns: Turns = field(default_factory=Turns)
    _under_way: int = 0

    def due(self, machine: Key, started: float) -> bool:
        """Say whether it is time for a look, at a VM that was started at that moment."""
        return self._under_way < _MOST and self._turns.due(machine, started, self.clock())

    async def look(
        self, cloud: Cloud, machine: Key, started: float, cloudspace_id: str, vm_id: int
    ) -> Proposed:
        """Return the condition GPUDriverReady of a machine. Raises nothing of the platform's."""
        self._turns.taken(machine, started, self.clock())
        self._under_way += 1
        try:
            async with asyncio.timeout(self.timeout):
                content = await cloud.vco.vms.read_file(
                    cloudspace_id, vm_id, filepath=RESULT_FILE, size=RESULT_LIMIT
                )
        except (VCOError, TimeoutError):
            return unknown()
        finally:
            self._under_way -= 1
        result = parse(content)
        return unknown() if result is None else known(result)


def known(result: GPUResult) -> Proposed:
    """Return the condition for a result."""
    type_ = ConditionType.GPU_DRIVER_READY
    if result.ok:
        message = f"{result.cards} card(s) usable, driver branch {result.branch}"
        return Proposed(type_, "True", Reason.READY, message)
    message = (
        f"{result.cause} at step {result.step}: {result.words}; on the node:"
        " /var/log/capvco-gpu.log"
    )
    return Proposed(type_, "False", Reason.GPU_DRIVER_FAILED, message)


def unknown() -> Proposed:
    """Return the condition while there is no result to read."""
    message = (
        "the VM agent shows no result of the GPU step yet; without an agent read the console, or"
        " /var/log/capvco-gpu.log on the node"
    )
    return Proposed(
        ConditionType.GPU_DRIVER_READY, "Unknown", Reason.INSTALLING_GPU_DRIVER, message
    )
