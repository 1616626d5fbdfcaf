"""How property tests run: the same examples each time, however slow the machine is."""

from hypothesis import HealthCheck, settings

always = settings(
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
