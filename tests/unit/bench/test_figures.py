"""Figures from /proc, from metrics and from the cloud's counters."""

import os
from pathlib import Path

import pytest

from bench import counters, processes, results
from bench.processes import Sample
from bench.results import CloudCalls, Phase, ProcessUse, Report, Run
from vcosim.journal import Count

METRICS = """\
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="127.0.0.1:1",method="PATCH"} 4.0
rest_client_requests_total{code="409",host="127.0.0.1:1",method="PATCH"} 1.0
rest_client_requests_total{code="201",host="127.0.0.1:1",method="POST"} 2.0
rest_client_requests_created{code="201",host="127.0.0.1:1",method="POST"} 1.7e+09
rest_client_requests_total{code="200",host="127.0.0.1:1",method="GET"} 3.0
"""
VGPUS, VMS = "/customers/{customer_id}/locations/{location}/vgpus", "/customers/{c}/vms"


def test_requests_are_summed_by_method() -> None:
    """Whatever the answer was: a refused write is one, too."""
    assert counters.requests(METRICS) == {"PATCH": 5, "POST": 2, "GET": 3}


def test_differences_leave_out_what_did_not_move() -> None:
    """Of a phase, only what happened in it."""
    assert counters.difference({"GET": 1, "POST": 2}, {"GET": 1, "POST": 5, "PUT": 1}) == {
        "POST": 3,
        "PUT": 1,
    }


def test_calls_are_sorted() -> None:
    """About GPUs or not; changing anything or not."""
    counts = [Count("GET", VGPUS, 200, 3), Count("GET", VGPUS, 503, 1), Count("POST", VMS, 200, 2)]
    before = {("GET", VGPUS): 1}
    found = counters.calls(before, counters.by_route(counts))
    assert (found.gpu, found.other, found.mutating) == (3, 2, 2)
    assert found.by_route == {f"GET {VGPUS}": 3, f"POST {VMS}": 2}


def test_cpu_time_of_a_command_with_an_odd_name() -> None:
    """The name stands in parentheses and may hold some itself."""
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"7 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 {3 * ticks} {ticks} 0 0 20 0 1 0 5"
    assert processes.cpu_seconds(stat) == pytest.approx(4.0)


def test_memory() -> None:
    """Now, and at most."""
    assert processes.memory_mib("Name:\tx\nVmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\n") == (1.0, 2.0)


def test_a_look_at_this_process() -> None:
    """What /proc says fits what the parsers expect."""
    found = processes.sample(os.getpid())
    assert found.cpu_seconds > 0
    assert 0 < found.rss_mib <= found.peak_mib


def test_use_of_a_process_that_came_in_between() -> None:
    """All it has used, it used in the phase."""
    before = {"old": Sample(1.0, 5.0, 9.0)}
    after = {"old": Sample(1.5, 6.0, 9.0), "new": Sample(0.25, 1.0, 2.0)}
    assert processes.used(before, after) == (
        ProcessUse(name="old", cpu_seconds=0.5, rss_mib=6.0, peak_mib=9.0),
        ProcessUse(name="new", cpu_seconds=0.25, rss_mib=1.0, peak_mib=2.0),
    )


def a_phase(**changed: object) -> Phase:
    given: dict[str, object] = {
        "name": "create",
        "machines": 4,
        "seconds": 2.0,
        "processes": (ProcessUse(name="capvco", cpu_seconds=1.0, rss_mib=50.0, peak_mib=60.0),),
        "cloud": CloudCalls(gpu=8, other=4, mutating=8, by_route={"GET /x": 12}),
        "kubernetes": {"GET": 4, "PATCH": 16, "POST": 4},
    }
    return Phase(**(given | changed))  # type: ignore[arg-type]  # a test's own changes


def a_run(what: str = "provider", machines: int = 4) -> Run:
    series = ((0.0, 0, 0), (1.0, 4, 2), (2.0, 4, 4), (3.0, 0, 0))
    return Run(what=what, machines=machines, phases=(a_phase(),), series=series, held=0, breaches=0)


def test_reads_are_no_writes() -> None:
    """What costs an API server is what changes something."""
    assert a_phase().writes == 20


def test_a_report_comes_back_from_its_file(tmp_path: Path) -> None:
    """Results are for other programs, too."""
    report = Report(
        at="2026-01-01T00:00:00Z",
        machine=results.this_machine(),
        flags={"concurrency": "10"},
        switches={},
        profiled=False,
        runs=(a_run(),),
    )
    path = tmp_path / "deep" / "report.json"
    results.write(report, path)
    assert results.read(path) == report
