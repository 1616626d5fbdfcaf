"""A provisioned cluster on a simulated cloud, for many tests: machines come and go, it stays."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from kubelocal import LocalCluster
from kubelocal.ports import free_ports
from tests.support.scenario import INFRA, LOCATION, Object, Scenario, condition
from tests.support.simulator import running_simulator
from vcosim.control import Action, Match, When
from vcosim.journal import Logged
from vcosim.ledger import Row
from vcosim.records import Vm

A100 = {"type": "NVIDIA A100", "count": 1}
DUMMY = {"type": "Dummy GPU", "count": 1}
"""The kind of card that the stage has plenty of."""
RECORD = "capvco.infrastructure.cluster.x-k8s.io/record"
PLENTY = 50
RESERVE = r"/gpus/[{]gpu_id[}]$"
CREATE_VM = r"/vms$"
ATTACH = r"/vgpus/[{]vgpu_id[}]$"
_HELD = 120.0
"""Seconds for which a held call waits, by the simulator's clock, which is moved to release it."""
_METRIC = re.compile(r"^(\w+)(?:\{(.*)\})? ([0-9.e+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Stage(Scenario):
    """A scenario with a manager at work, and what tests of many machines ask of it."""

    last_beat = 0.0
    """When the nodes of the stage, if it has any, last said that they are well."""

    @classmethod
    @contextmanager
    def opened(
        cls,
        cluster: LocalCluster,
        folder: Path,
        *,
        flags: Mapping[str, str] | None = None,
        before: Callable[["Stage"], None] = lambda _: None,
        switches: Mapping[str, object] | None = None,
    ) -> Iterator["Stage"]:
        """Run a cloud with these switches and a manager with these flags; provision ``demo``.

        ``before`` happens just before the cluster is made.
        Afterwards no request was outside the description, and Kubernetes refused the manager
        nothing.
        """
        (folder / "cloud").mkdir(parents=True)
        (folder / "manager").mkdir()
        with (
            running_simulator(folder / "cloud") as simulator,
            cls.open(cluster, simulator, folder / "manager") as stage,
        ):
            assert isinstance(stage, cls)
            stage.flags |= flags or {}
            simulator.control.set(**(switches or {}))
            for card in stage.cards("Dummy GPU"):
                simulator.control.cards.set(LOCATION, card, PLENTY)
            stage.start_manager()
            before(stage)
            stage.put_cluster()
            stage.until("the cluster", stage.cluster_ready)
            yield stage
            assert not simulator.control.breaches()
            assert stage.refused() == 0

    # --- the manager ---

    def start_manager(self) -> None:
        """Start a manager whose metrics can be read."""
        self.flags["diagnostics-address"] = f"127.0.0.1:{free_ports(1)[0]}"
        super().start_manager()

    def restart_manager(self, between: Callable[[], None] = lambda: None) -> None:
        """Kill the manager and start another; ``between`` happens while none runs."""
        assert self.refused() == 0
        self.kill_manager()
        between()
        self.start_manager()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric of the manager over all series whose labels match wholly."""
        address = self.flags["diagnostics-address"]
        try:
            text = httpx2.get(f"http://{address}/metrics", trust_env=False).text
        except httpx2.TransportError:
            return 0.0  # it has not begun to listen, or does not run
        return sum(
            float(value)
            for found, listed, value in _METRIC.findall(text)
            if found == name and _fits(dict(_LABEL.findall(listed)), labels)
        )

    def refused(self) -> float:
        """How many requests Kubernetes refused to this manager's account."""
        return self.metric("rest_client_requests_total", code="403")

    def writes(self) -> float:
        """How many requests of this manager changed something in Kubernetes, Events included."""
        return self.metric("rest_client_requests_total", method="POST|PUT|PATCH|DELETE")

    # --- objects ---

    def until(self, what: str, done: Callable[[], object], seconds: float = 90.0) -> None:
        """Look until something holds; patient, since a stage may share its machine with others."""
        super().until(what, done, seconds)

    def picture(self) -> str:
        """Describe what there is, and what Cluster API thinks that its objects lack."""
        lines = [
            f"{o['kind']} {o['metadata']['name']}: {c['type']} {c['status']} {c.get('message')}"
            for plural in ("machines", "machinedeployments")
            for o in self.items(plural)
            for c in o.get("status", {}).get("conditions", [])
            if c["status"] != "True" and c.get("message")
        ]
        return "\n".join([super().picture(), *lines])

    def cluster_ready(self, name: str = "demo") -> bool:
        """Say whether Cluster API takes the cluster's infrastructure for provisioned."""
        found = self.get("clusters", name) or {}
        status = found.get("status", {})
        return bool(status.get("initialization", {}).get("infrastructureProvisioned"))

    def up(self, *names: str, seconds: float = 90.0) -> None:
        """Wait until machines are provisioned."""
        self.until(
            f"{', '.join(names)} to be up", lambda: all(map(self.running, names)), seconds=seconds
        )

    def down(self, *names: str, seconds: float = 90.0) -> None:
        """Delete Machines and wait until nothing of them is left."""
        for name in names:
            self.delete("machines", name)
        self.vanished(*names, seconds=seconds)

    def vanished(self, *names: str, seconds: float = 90.0) -> None:
        """Wait until VCOMachines are gone."""
        self.until(
            f"{', '.join(names)} to be gone",
            lambda: all(self.gone("vcomachines", name) for name in names),
            seconds=seconds,
        )

    def ready(self, name: str, plural: str = "vcomachines") -> Mapping[str, Any]:
        """Return the Ready condition of an object, empty without one."""
        return condition(self.get(plural, name) or {}, "Ready")

    def reason(self, name: str, plural: str = "vcomachines") -> str:
        """Return why an object is ready or not."""
        return str(self.ready(name, plural).get("reason", ""))

    def says(self, name: str, reason: str, plural: str = "vcomachines") -> str:
        """Wait until an object gives this reason; return its message."""
        self.until(f"{name} to say {reason}", lambda: self.reason(name, plural) == reason)
        return str(self.ready(name, plural)["message"])

    def mentions(self, name: str, text: str) -> None:
        """Wait until the Ready condition of a VCOMachine has a text in its message."""
        self.until(f"{name} to mention {text}", lambda: text in self.ready(name).get("message", ""))

    def deleting(self, name: str) -> None:
        """Wait until a VCOMachine knows that it is to be deleted."""
        self.until(
            f"the deletion of {name} to begin",
            lambda: "deletionTimestamp" in self.vco_machine(name)["metadata"],
        )

    def events(self, name: str, kind: str = "VCOMachine") -> list[tuple[str, str]]:
        """Return reason and text of the Events on an object, as often as they were told."""
        fields = f"involvedObject.name={name},involvedObject.kind={kind}"
        listed = self.kubectl("get", "events", "-o", "json", f"--field-selector={fields}")
        return [(e["reason"], e["message"]) for e in json.loads(listed)["items"]]

    def patch(self, plural: str, name: str, body: Mapping[str, object], *flags: str) -> None:
        """Change an object by a merge patch."""
        group = INFRA if plural.startswith("vco") else "cluster.x-k8s.io"
        text = json.dumps(body)
        self.kubectl("patch", f"{plural}.{group}", name, "--type=merge", f"-p={text}", *flags)

    def wipe_status(self, name: str, plural: str = "vcomachines") -> None:
        """Empty the status, as a backup or a move does that leaves it out."""
        found = self.get(plural, name) or {}
        empty = dict.fromkeys(found.get("status", {}))
        self.patch(plural, name, {"status": empty}, "--subresource=status")

    def strip(self, plural: str, name: str) -> None:
        """Take away all finalizers, as an impatient person does."""
        self.patch(plural, name, {"metadata": {"finalizers": None}})

    def manifest(self, plural: str, name: str) -> Object:
        """Return an object as a backup or a move makes it anew: no status, no identity."""
        found = self.get(plural, name)
        assert found is not None, f"no {name} in {plural}"
        kept = ("name", "labels", "annotations")
        meta = {key: found["metadata"][key] for key in kept if key in found["metadata"]}
        return {key: found[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": meta}

    # --- the cloud ---

    def cards(self, model: str) -> list[str]:
        """Return the ids of the location's cards whose model begins so."""
        listed = self.simulator.control.cards.list(LOCATION)
        return [card.id for card in listed if card.model.startswith(model)]

    def cards_off(self, model: str) -> None:
        """Take all cards of a model out of service."""
        for card in self.cards(model):
            self.simulator.control.cards.set(LOCATION, card, 0)

    def cloudspace(self, cluster: str = "demo") -> str:
        """Return the id of a cluster's cloudspace."""
        found = self.get("vcoclusters", cluster) or {}
        return str(found["status"]["sites"][0]["cloudspaceID"])

    def holdings(self, *names: str) -> list[Row]:
        """Return what the ledger says is held for these machines, or at all without any."""
        rows = self.simulator.control.ledger().rows
        return [r for r in rows if r.released_at is None and _of(r.name, names)]

    def bought(self, *names: str) -> list[Row]:
        """Return every reservation that was ever made for these machines."""
        return [r for r in self.simulator.control.ledger().rows if _of(r.name, names)]

    def vm(self, name: str) -> Vm | None:
        """Return the VM of this name that is not in the recycle bin, None without one."""
        found = [v for v in self.simulator.control.vms() if v.name == name and not v.binned]
        assert len(found) <= 1, f"{len(found)} VMs are named {name}"
        return found[0] if found else None

    def vms_ever(self, name: str) -> int:
        """How many requests to make a VM of this name the cloud has granted."""
        made = self.simulator.control.calls(method="POST", mutating=True)
        granted = [c for c in made if c.route.endswith("/vms") and c.status == 200]
        return sum(f"name={name}&" in f"{c.query}&" for c in granted)

    def mutations(self, after: int = 0) -> list[Logged]:
        """Return the calls that changed something in the cloud."""
        return self.simulator.control.calls(mutating=True, after=after)

    def now(self) -> int:
        """Return the number of the newest call, for questions about what came after."""
        return max((call.seq for call in self.simulator.control.calls()), default=0)

    @contextmanager
    def held_call(
        self, method: str, route: str, *, committed: bool = False, nth: int = 1
    ) -> Iterator[Callable[[], bool]]:
        """Hold the answer to one call until the block ends; gives whether it has come.

        ``committed``: the cloud does what is asked at once, and only its answer waits.
        """
        control = self.simulator.control
        rule = control.faults.add(
            Action(kind="slow", seconds=_HELD, committed=committed),
            Match(method=method, route=route),
            When(nth=nth),
            times=1,
        )

        def arrived() -> bool:
            return any(one.fired for one in control.faults.list() if one.rule.id == rule.id)

        try:
            yield arrived
        finally:
            control.clock.advance(_HELD)
            control.faults.remove(rule.id)


def _fits(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(re.fullmatch(value, found.get(name, "")) for name, value in wanted.items())


def _of(name: str, machines: tuple[str, ...]) -> bool:
    """Say whether a reservation has a name that one of these machines, or pools, would give it."""
    return not machines or any(
        re.match(rf"capvco-{re.escape(machine)}-(.+-)?gpu-\d", name) for machine in machines
    )
