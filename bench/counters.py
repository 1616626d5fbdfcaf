"""What the manager asked of Kubernetes and of the cloud, from the counters of both sides."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bench.results import CloudCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vcosim.journal import Count

_REQUESTS = re.compile(r"^rest_client_requests_total\{(.*)\} (\S+)$", re.MULTILINE)
_METHOD = re.compile(r'\bmethod="(\w+)"')
_GPU = re.compile(r"gpu", re.IGNORECASE)
Route = tuple[str, str]
"""Method and path template of a call."""


def requests(metrics: str) -> dict[str, int]:
    """Count the manager's requests to the API server by method, from the text of /metrics."""
    found: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(metrics):
        if method := _METHOD.search(labels):
            found[method[1]] += int(float(value))
    return dict(found)


def by_route(counts: Iterable[Count]) -> dict[Route, int]:
    """Add up the calls of each route over all answers."""
    found: Counter[Route] = Counter()
    for one in counts:
        found[one.method, one.route] += one.count
    return dict(found)


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what was added, without what was not."""
    added = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in sorted(added.items()) if count}


def calls(before: Mapping[Route, int], after: Mapping[Route, int]) -> CloudCalls:
    """Sort the calls in between: about GPUs or not, and changing anything or not."""
    added = {r: n for r, count in after.items() if (n := count - before.get(r, 0))}
    gpu = sum(count for (_, route), count in added.items() if _GPU.search(route))
    return CloudCalls(
        gpu=gpu,
        other=sum(added.values()) - gpu,
        mutating=sum(count for (method, _), count in added.items() if method != "GET"),
        by_route={f"{m} {route}": count for (m, route), count in sorted(added.items())},
    )
