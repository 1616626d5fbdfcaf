"""Puts the manager together: settings, clients, caches, controllers.

The one place that sees all.
"""

from dataclasses import dataclass

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import CollectorRegistry

from capvco.api.upstream import WATCH_FILTER_LABEL
from capvco.api.v1beta1 import CLUSTER_FINALIZER, MACHINE_FINALIZER
from capvco.api.v1beta1.machine import VCOMachine
from capvco.api.v1beta1.templates import VCOMachineTemplate
from capvco.controllers import kinds, watches
from capvco.controllers.clouds import Clouds
from capvco.controllers.cluster import MACHINES_BY_CLUSTER, ClusterReconciler
from capvco.controllers.machine import MachineReconciler
from capvco.controllers.machine_pass import MachineTools
from capvco.controllers.metrics import ReservationCollector, StageSeconds
from capvco.controllers.node_labels import NodeLabels, labels_of
from capvco.controllers.nodes import Nodes
from capvco.controllers.passes import Tools
from capvco.controllers.scope import Caches, machine_scope
from capvco.controllers.template import TemplateReconciler
from capvco.runtime.cache import Cache, Change
from capvco.runtime.controller import Controller
from capvco.runtime.events import Recorder
from capvco.runtime.kinds import Key, key_of
from capvco.runtime.kube import Kube
from capvco.runtime.lag import LoopWatch
from capvco.runtime.leader import Elector, Terms
from capvco.runtime.manager import Exit, Manager
from capvco.runtime.probes import Probes
from capvco.settings import Settings


@dataclass(frozen=True)
class Controllers:
    """The controllers of the manager."""

    clusters: Controller
    machines: Controller
    templates: Controller
    nodes: Nodes


def build_caches(kube: Kube, settings: Settings, registry: CollectorRegistry) -> Caches:
    """Make the caches; a watch filter narrows our own kinds and their owners alike."""
    labels = {WATCH_FILTER_LABEL: settings.watch_filter} if settings.watch_filter else None
    namespace = settings.namespace or None
    return Caches(
        clusters=Cache(kube, kinds.CLUSTER, namespace=namespace, registry=registry),
        machines=Cache(kube, kinds.MACHINE, namespace=namespace, registry=registry),
        vco_clusters=Cache(
            kube, kinds.VCO_CLUSTER, namespace=namespace, labels=labels, registry=registry
        ),
        vco_machines=Cache(
            kube,
            kinds.VCO_MACHINE,
            namespace=namespace,
            labels=labels,
            indexes={MACHINES_BY_CLUSTER: watches.by_cluster},
            registry=registry,
        ),
        templates=Cache(
            kube, kinds.VCO_MACHINE_TEMPLATE, namespace=namespace, labels=labels, registry=registry
        ),
    )


def build_controllers(
    clouds: Clouds, caches: Caches, events: Recorder, settings: Settings
) -> Controllers:
    """Make the controllers and connect them to the caches."""
    kube, registry, waits = clouds.kube, clouds.registry, settings.waits
    of_clusters = Tools(
        kube, kinds.VCO_CLUSTER, caches.vco_clusters, events, waits, CLUSTER_FINALIZER
    )
    of_machines = Tools(
        kube, kinds.VCO_MACHINE, caches.vco_machines, events, waits, MACHINE_FINALIZER
    )
    clusters = ClusterReconciler(of_clusters, caches, clouds)
    nodes = Nodes(
        kube,
        registry,
        lambda: watches.node_clusters(caches.vco_machines.list()),
        NodeLabels(lambda cluster: labels_of(_going(caches, cluster))),
        interval=settings.node_interval,
    )
    shared = MachineTools(of_machines, caches, clouds, StageSeconds(registry), nodes)
    machines = MachineReconciler(shared)
    templates = TemplateReconciler(kube, caches.templates)
    size = settings.concurrency
    made = Controllers(
        Controller("vcocluster", clusters.reconcile, concurrency=size, registry=registry),
        Controller("vcomachine", machines.reconcile, concurrency=size, registry=registry),
        Controller("vcomachinetemplate", templates.reconcile, concurrency=2, registry=registry),
        nodes,
    )
    _connect(caches, made)
    return made


def _connect(caches: Caches, controllers: Controllers) -> None:
    """Say which change makes which controller look."""

    def enqueue(controller: Controller, key: Key | None) -> None:
        if key is not None:
            controller.enqueue(key)

    def all_of(cluster: Key | None) -> None:
        if cluster is None:
            return
        controllers.clusters.enqueue(_infrastructure(caches, cluster))
        for machine in caches.vco_machines.by_index(MACHINES_BY_CLUSTER, str(cluster)):
            controllers.machines.enqueue(key_of(machine))

    def nodes(cluster: Key, changed: set[str] | None) -> None:
        for machine in _staying(caches, cluster):
            if changed is None or machine.spec.provider_id in changed:
                controllers.machines.enqueue(key_of(machine))

    def template(change: Change[VCOMachineTemplate]) -> None:
        enqueue(controllers.templates, key_of(change.new) if change.new else None)

    caches.vco_machines.on_change(
        lambda change: enqueue(controllers.machines, watches.of_vco_machine(change))
    )
    caches.vco_machines.on_change(
        lambda change: enqueue(controllers.clusters, _bereft(caches, change))
    )
    caches.vco_clusters.on_change(
        lambda change: enqueue(controllers.clusters, watches.of_vco_cluster(change))
    )
    caches.machines.on_change(
        lambda change: enqueue(controllers.machines, watches.machine_to_vco_machine(change))
    )
    caches.clusters.on_change(lambda change: all_of(watches.cluster_changed(change)))
    caches.templates.on_change(template)
    controllers.nodes.on_change(nodes)


def _staying(caches: Caches, cluster: Key) -> list[VCOMachine]:
    """Return the machines whose nodes matter: those of a cluster that are not being deleted."""
    machines = caches.vco_machines.by_index(MACHINES_BY_CLUSTER, str(cluster))
    return [machine for machine in machines if machine.metadata.deletion_timestamp is None]


def _going(caches: Caches, cluster: Key) -> list[VCOMachine]:
    """Return those of a cluster's machines that nobody deletes and nothing pauses."""
    return [m for m in _staying(caches, cluster) if not machine_scope(caches, m).paused]


def _infrastructure(caches: Caches, cluster: Key) -> Key:
    """Return the key of a Cluster's VCOCluster; of the same name if the Cluster is gone."""
    owner = caches.clusters.get(cluster)
    reference = owner.spec.infrastructure_ref if owner else None
    return Key(cluster.namespace, reference.name) if reference else cluster


def _bereft(caches: Caches, change: Change[VCOMachine]) -> Key | None:
    """Return the key of the VCOCluster that lost a machine, if it is deleted and waits for that."""
    cluster = watches.machines_left(change)
    if cluster is None:
        return None
    key = _infrastructure(caches, cluster)
    vco_cluster = caches.vco_clusters.get(key)
    return key if vco_cluster and vco_cluster.metadata.deletion_timestamp else None


def new_registry() -> CollectorRegistry:
    """Return a registry with the metrics of the process itself."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


def build_manager(clouds: Clouds, settings: Settings) -> Manager:
    """Put everything together."""
    kube, registry = clouds.kube, clouds.registry
    events = Recorder(kube, instance=settings.identity, registry=registry)
    caches = build_caches(kube, settings, registry)
    controllers = build_controllers(clouds, caches, events, settings)
    registry.register(ReservationCollector(caches.vco_machines))
    elector = None
    if settings.leader_elect:
        terms = Terms(settings.lease_duration, settings.renew_deadline, settings.retry_period)
        elector = Elector(
            kube,
            settings.leader_election_namespace or kube.namespace or "default",
            identity=settings.identity,
            terms=terms,
            registry=registry,
        )
    return Manager(
        caches=(
            caches.clusters,
            caches.machines,
            caches.vco_clusters,
            caches.vco_machines,
            caches.templates,
        ),
        controllers=(controllers.clusters, controllers.machines, controllers.templates),
        probes=Probes(
            health=settings.health_addr, metrics=settings.diagnostics_address, registry=registry
        ),
        elector=elector,
        recorder=events,
        background=(LoopWatch(registry=registry).run, controllers.nodes.run),
    )


async def run(settings: Settings) -> Exit:
    """Run the manager until it is told to stop. Raises Misconfigured without a kubeconfig."""
    registry = new_registry()
    async with Kube.connect(settings.kubeconfig, user_agent="capvco", registry=registry) as kube:
        clouds = Clouds(
            kube,
            settings.waits,
            settings.client,
            registry,
            refuse_choice=settings.refuse_ambiguous_gpu_types,
            max_user_data=settings.max_user_data,
        )
        try:
            return await build_manager(clouds, settings).run()
        finally:
            await clouds.close()
