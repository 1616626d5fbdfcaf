import asyncio
import time

import structlog
from prometheus_client import CollectorRegistry

from capvco.runtime.lag import LoopWatch


def block_the_loop(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_a_blocked_loop_is_measured_and_named() -> None:
    """The metric shows how long, the log where; an incident is a line."""
    registry = CollectorRegistry()
    watch = LoopWatch(period=0.02, blocked=0.1, registry=registry)
    with structlog.testing.capture_logs() as logs:
        running = asyncio.ensure_future(watch.run())
        await asyncio.sleep(0.1)
        block_the_loop(0.5)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running})
    lag = registry.get_sample_value("capvco_event_loop_lag_seconds")
    assert lag is not None
    assert lag >= 0.4
    blocked = [log for log in logs if log["event"] == "event loop blocked"]
    assert any("block_the_loop" in log["stack"] for log in blocked)
