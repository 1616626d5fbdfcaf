"""VCOMachine: which part of its life a machine is in, and what must be there before it."""

from dataclasses import dataclass

from capvco.api.conditions import ConditionType, Reason
from capvco.controllers import gates, report
from capvco.controllers.bring_up import BringUp
from capvco.controllers.machine_pass import MachinePass, MachineTools
from capvco.controllers.scope import machine_scope
from capvco.controllers.teardown import Teardown
from capvco.controllers.upkeep import Upkeep
from capvco.runtime.controller import Result
from capvco.runtime.kinds import Key
from capvco.services.outcome import Pending


@dataclass(frozen=True)
class MachineReconciler:
    """Reconciles VCOMachines."""

    shared: MachineTools

    async def reconcile(self, key: Key) -> Result:
        """Bring one VCOMachine a step nearer to what its spec says. Idempotent."""
        vco_machine = self.shared.caches.vco_machines.get(key)
        if vco_machine is None:
            return Result()
        return await _Life(self.shared, machine_scope(self.shared.caches, vco_machine)).run()


class _Life(MachinePass):
    """Decides which part of its life a machine is in."""

    async def steps(self) -> Pending | None:
        """Pause comes first, then deletion, then everything else."""
        if why := self.scope.paused:
            self.parts[ConditionType.PAUSED] = report.paused(yes=True, why=why)
            return None
        if self.deleting:
            return await Teardown(self).steps()
        if gates.newborn(self.scope, self.tools.clock()):
            self.finished = True
            return None
        return await self._live()

    async def _live(self) -> Pending | None:
        if pending := gates.owner(self.scope) or gates.infrastructure(self.scope):
            return pending
        machine, vco_cluster = self.scope.machine, self.scope.vco_cluster
        assert machine is not None and vco_cluster is not None  # noqa: S101, PT018 - the gates' word
        self.site = gates.site(vco_cluster, machine.spec.failure_domain)
        if not machine.spec.provider_id and (pending := gates.bootstrap(self.scope)):
            return pending
        identity = vco_cluster.spec.identity_ref.name
        cloud = await self.cloud(identity)
        if isinstance(cloud, Pending):
            return cloud
        await self.hold()
        record = self.load(cloud, self.site, identity)
        if not record.cloudspace_id:
            message = f"the VCOCluster {vco_cluster.metadata.name} has no cloudspace yet"
            return Pending(Reason.WAITING_FOR_CLUSTER_INFRASTRUCTURE, message, gates.WAIT)
        if machine.spec.provider_id or self.provisioned:
            return await Upkeep(self, cloud).steps(record)
        return await BringUp(self, cloud).steps(record)
