"""The metrics of the controller core, under the names that controller-runtime made common.

Dashboards and alerts written for Go controllers therefore work unchanged. What has no Go
counterpart starts with ``capvco_``.
"""

from typing import ClassVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)
_QUEUE_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600)
_QUEUE_LABELS = ("name", "controller")


class Metrics:
    """All metrics of the runtime in one registry; get it by ``Metrics.of(registry)``."""

    _known: ClassVar[WeakKeyDictionary[CollectorRegistry, "Metrics"]] = WeakKeyDictionary()

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "Metrics":
        """Return the metrics of a registry, registered there on first use."""
        found = cls._known.get(registry)
        if found is None:
            found = cls._known[registry] = cls(registry)
        return found

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reconciles(registry)
        self._queues(registry)
        self._apiserver(registry)

    def _reconciles(self, registry: CollectorRegistry) -> None:
        one = ("controller",)
        self.reconciles = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations, by result: success, error, requeue or requeue_after.",
            ("controller", "result"),
            registry=registry,
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciliations that ended in an error.",
            one,
            registry=registry,
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciliations that no retry will help.",
            one,
            registry=registry,
        )
        self.panics = Counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciliations that ended in a programming error, such as a TypeError.",
            one,
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconciliation takes.",
            one,
            buckets=_RECONCILE_BUCKETS,
            registry=registry,
        )
        self.max_workers = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "How many objects a controller reconciles at a time, at most.",
            one,
            registry=registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers",
            "How many objects a controller reconciles now.",
            one,
            registry=registry,
        )

    def _queues(self, registry: CollectorRegistry) -> None:
        self.depth = Gauge(
            "workqueue_depth", "Keys that wait for a worker.", _QUEUE_LABELS, registry=registry
        )
        self.adds = Counter(
            "workqueue_adds_total", "Keys that became ready.", _QUEUE_LABELS, registry=registry
        )
        self.retries = Counter(
            "workqueue_retries_total", "Retries after a failure.", _QUEUE_LABELS, registry=registry
        )
        self.queue_seconds = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waits for a worker.",
            _QUEUE_LABELS,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.work_seconds = Histogram(
            "workqueue_work_duration_seconds",
            "How long a worker holds a key.",
            _QUEUE_LABELS,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.unfinished_seconds = Gauge(
            "workqueue_unfinished_work_seconds",
            "Time spent so far on all keys that workers hold.",
            _QUEUE_LABELS,
            registry=registry,
        )
        self.longest_seconds = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Time spent so far on the key that a worker holds longest.",
            _QUEUE_LABELS,
            registry=registry,
        )

    def _apiserver(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "rest_client_requests_total",
            "Requests to the apiserver; the code is <error> when no answer came.",
            ("code", "method", "host"),
            registry=registry,
        )
        self.leading = Gauge(
            "leader_election_master_status",
            "1 while this process is the leader, else 0.",
            ("name",),
            registry=registry,
        )
        self.cached = Gauge(
            "capvco_cache_objects", "Objects in a cache.", ("kind",), registry=registry
        )
        self.relists = Counter(
            "capvco_cache_lists_total", "Full lists that a cache asked for.", ("kind",),
            registry=registry,
        )  # fmt: skip
        self.undecodable = Counter(
            "capvco_cache_undecodable_total",
            "Objects that could not be decoded: the cache kept their former state.",
            ("kind",),
            registry=registry,
        )
        self.events_dropped = Counter(
            "capvco_events_dropped_total",
            "Kubernetes Events that were not recorded: rate limit, full queue or refused.",
            registry=registry,
        )
        self.loop_lag = Gauge(
            "capvco_event_loop_lag_seconds",
            "How late the event loop was at worst in the last 15 to 30 seconds.",
            registry=registry,
        )
