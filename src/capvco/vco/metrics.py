"""Metrics of the calls to the cloud, by route template and never by id."""

from prometheus_client import CollectorRegistry, Histogram

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class RequestMetrics:
    """`capvco_vco_request_seconds{method,endpoint,code}`; make one per registry.

    `code` is the HTTP status, or what happened instead of one: `unsent`, `lost`, `timeout`,
    `cancelled`.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "capvco_vco_request_seconds",
            "Time from sending a request to a VCO API until its answer is complete.",
            ("method", "endpoint", "code"),
            buckets=_BUCKETS,
            registry=registry,
        )

    def observe(self, method: str, endpoint: str, code: str, seconds: float) -> None:
        """Count one request."""
        self._seconds.labels(method, endpoint, code).observe(seconds)
