"""What an operator may set: flags of the manager, as one frozen struct."""

import argparse
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from capvco.services.cloud import MAX_USER_DATA, Waits
from capvco.vco.settings import ClientSettings

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that may be set. Durations are in seconds."""

    kubeconfig: Path | None = None
    namespace: str = ""
    """Only objects of this namespace are looked at; all if empty."""
    watch_filter: str = ""
    concurrency: Annotated[int, Meta(ge=1)] = 10
    leader_elect: bool = False
    leader_election_namespace: str = ""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    health_addr: str = ":9440"
    diagnostics_address: str = ":8443"
    log_level: str = "info"
    identity: str = ""
    node_interval: float = 30.0
    """Between looks at the nodes of workload clusters, for GPUReady."""
    waits: Waits = Waits()
    client: ClientSettings = ClientSettings()
    refuse_ambiguous_gpu_types: bool = False
    max_user_data: Annotated[int, Meta(ge=1)] = MAX_USER_DATA


def duration(text: str) -> float:
    """Read a duration as Go writes it (1m30s), or plain seconds. Raises ArgumentTypeError."""
    try:
        return float(text)
    except ValueError:
        found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration such as 30s or 1m30s')
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="capvco",
        description="Cluster API infrastructure provider for VCO clouds: the manager."
        " Durations are written like 30s or 1m30s. `capvco demo --help` is about the demo.",
    )
    _add_kubernetes(parser.add_argument_group("Kubernetes"))
    _add_pace(parser.add_argument_group("waiting and pace"))
    _add_diagnostics(parser.add_argument_group("diagnostics"))
    return parser


_Group = argparse._ArgumentGroup  # noqa: SLF001 - argparse has no public name for it


def _add_kubernetes(group: _Group) -> None:
    add = group.add_argument
    add("--kubeconfig", type=Path, metavar="FILE", help="default: in-cluster, else $KUBECONFIG")
    add("--namespace", default="", help="look at this namespace only")
    add(
        "--watch-filter",
        default="",
        metavar="VALUE",
        help="look only at objects whose label cluster.x-k8s.io/watch-filter has this value",
    )
    add("--concurrency", type=int, default=10, help="objects of a kind worked on at a time")
    add("--leader-elect", action=argparse.BooleanOptionalAction, default=False)
    add("--leader-election-namespace", default="", metavar="NAMESPACE", help="default: the pod's")
    add("--leader-elect-lease-duration", type=duration, default=15.0, metavar="DURATION")
    add("--leader-elect-renew-deadline", type=duration, default=10.0, metavar="DURATION")
    add("--leader-elect-retry-period", type=duration, default=2.0, metavar="DURATION")


def _add_pace(group: _Group) -> None:
    waits, client = Waits(), ClientSettings()
    add = group.add_argument
    add("--sync-period", type=duration, default=waits.resync, help="between looks at what is well")
    add("--poll-interval", type=duration, default=waits.poll, help="... at what is in transition")
    add(
        "--capacity-interval",
        type=duration,
        default=waits.capacity,
        help="... at a location without room; shared by all waiting machines",
    )
    add(
        "--node-interval",
        type=duration,
        default=30.0,
        help="... at the nodes of clusters with GPU machines, for the condition GPUReady",
    )
    add(
        "--settle-time",
        type=duration,
        default=waits.settle,
        help="how long a request whose answer was lost may still take effect",
    )
    add("--vco-rate", type=float, default=client.rate, help="requests per second and account")
    add("--vco-burst", type=int, default=client.burst, help="requests at once after a rest")
    add("--vco-concurrency", type=int, default=client.concurrency, help="requests in flight")
    add(
        "--refuse-ambiguous-gpu-types",
        action="store_true",
        help="refuse a GPU type that covers several models, rather than choose one",
    )
    add(
        "--max-user-data",
        type=int,
        default=MAX_USER_DATA,
        metavar="BYTES",
        help="of user data, as JSON, that a VM may get; checked before anything is paid for",
    )


def _add_diagnostics(group: _Group) -> None:
    add = group.add_argument
    add("--health-addr", default=":9440", metavar="ADDR", help="/healthz and /readyz; 0: none")
    add("--diagnostics-address", default=":8443", metavar="ADDR", help="/metrics; 0: none")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info")


def parse(arguments: Sequence[str]) -> Settings:
    """Read the flags. Exits with a message for what cannot be."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.concurrency < 1:
        parser.error("--concurrency must be at least 1")
    if given.max_user_data < 1:
        parser.error("--max-user-data must be at least 1")
    if given.node_interval <= 0:
        parser.error("--node-interval must be more than 0: write it like 30s")
    try:
        client = ClientSettings(
            rate=given.vco_rate, burst=given.vco_burst, concurrency=given.vco_concurrency
        )
    except ValueError as error:
        parser.error(f"--vco-rate, --vco-burst, --vco-concurrency: {error}")
    waits = Waits(
        poll=given.poll_interval,
        capacity=given.capacity_interval,
        settle=given.settle_time,
        resync=given.sync_period,
    )
    return Settings(
        kubeconfig=given.kubeconfig,
        namespace=given.namespace,
        watch_filter=given.watch_filter,
        concurrency=given.concurrency,
        leader_elect=given.leader_elect,
        leader_election_namespace=given.leader_election_namespace
        or os.environ.get("POD_NAMESPACE", ""),
        lease_duration=given.leader_elect_lease_duration,
        renew_deadline=given.leader_elect_renew_deadline,
        retry_period=given.leader_elect_retry_period,
        health_addr=given.health_addr,
        diagnostics_address=given.diagnostics_address,
        log_level=given.log_level,
        identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}",
        node_interval=given.node_interval,
        waits=waits,
        client=client,
        refuse_ambiguous_gpu_types=given.refuse_ambiguous_gpu_types,
        max_user_data=given.max_user_data,
    )
