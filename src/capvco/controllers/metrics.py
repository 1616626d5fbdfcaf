"""What an operator sees of GPUs in metrics: what is held where, who waits, how long things take."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from capvco.api.conditions import ConditionType, Reason
from capvco.api.meta import Condition, find
from capvco.api.v1beta1.machine import VCOMachine
from capvco.runtime.cache import Cache
from capvco.services import record as records
from capvco.services.record import CorruptRecord

_BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)
_STAGES = {
    ConditionType.GPU_RESERVED: "reserved",
    ConditionType.GPU_ATTACHED: "attached",
    ConditionType.VM_PROVISIONED: "started",
}


class StageSeconds:
    """``capvco_machine_stage_seconds{stage}``: from the creation of a VCOMachine to a stage."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "capvco_machine_stage_seconds",
            "Time from the creation of a VCOMachine until its GPUs are reserved, are attached,"
            " and until it is started.",
            ("stage",),
            buckets=_BUCKETS,
            registry=registry,
        )

    def observe(
        self, created: str | None, before: Iterable[Condition], after: Iterable[Condition]
    ) -> None:
        """Count each stage that is newly reached; call it while a machine is brought up."""
        old, new = tuple(before), tuple(after)
        for type_, stage in _STAGES.items():
            now = find(new, type_)
            was = find(old, type_)
            if created is None or now is None or now.status != "True":
                continue
            if was is not None and was.status == "True":
                continue
            took = _epoch(now.last_transition_time) - _epoch(created)
            self._seconds.labels(stage).observe(max(took, 0.0))


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class ReservationCollector(Collector):
    """``capvco_gpu_reservations{location,state}`` and ``capvco_machines_waiting_for_capacity``.

    Computed from the cache when it is asked for. States: intended (asked for, no answer known),
    reserved, attached, lost (given up; released should it turn up).
    """

    def __init__(self, machines: Cache[VCOMachine]) -> None:
        self._machines = machines

    def collect(self) -> Iterator[Metric]:
        """Return both gauges."""
        machines = self._machines.list()
        held = GaugeMetricFamily(
            "capvco_gpu_reservations",
            "vGPU reservations that CAPVCO holds, or may hold; each is billed.",
            labels=("location", "state"),
        )
        for (location, state), number in sorted(reservations(machines).items()):
            held.add_metric((location, state), number)
        yield held
        waiting = GaugeMetricFamily(
            "capvco_machines_waiting_for_capacity",
            "VCOMachines whose GPU type cannot be had at the moment.",
            labels=("location",),
        )
        for location, number in sorted(_waiting(machines).items()):
            waiting.add_metric((location,), number)
        yield waiting


def reservations(machines: Iterable[VCOMachine]) -> Counter[tuple[str, str]]:
    """Count the reservations of machines by location and state."""
    found: Counter[tuple[str, str]] = Counter()
    for machine in machines:
        try:
            record = records.read(machine.metadata.annotations)
        except CorruptRecord:
            continue
        if record is None:
            continue
        attached = {gpu.vgpu_id for gpu in machine.status.gpus if gpu.attached}
        for slot in record.gpus:
            held = "attached" if slot.vgpu_id in attached else "reserved"
            found[record.location, held if slot.vgpu_id else "intended"] += 1
        if record.lost:
            found[record.location, "lost"] += len(record.lost)
    return found


def _waiting(machines: Iterable[VCOMachine]) -> Counter[str]:
    return Counter(
        machine.status.location
        for machine in machines
        for condition in [find(machine.status.conditions, ConditionType.READY)]
        if condition and condition.reason == Reason.GPU_TYPE_UNAVAILABLE
    )
