"""The manager in a thread of the test's own process: started and killed in no time."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable

from capvco.controllers.clouds import Clouds
from capvco.main import build_caches, build_controllers, new_registry
from capvco.runtime.events import Recorder
from capvco.runtime.kube import Kube
from capvco.runtime.manager import Manager
from capvco.settings import Settings


class InProcess:
    """A manager that runs in a thread until it is stopped or killed; use it once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outermost: asyncio.Task[None] | None = None
        self._manager: Manager | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="manager", daemon=True)

    def start(self) -> None:
        """Start it; returns when it can be stopped, before it has looked at anything."""
        self._thread.start()
        self._ready.wait()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it in order, as SIGTERM does."""
        assert self._manager is not None
        self._end(self._manager.stop)

    def kill(self) -> None:
        """End it wherever it is: no reconcile gets to its next call."""
        with warnings.catch_warnings():
            # What was under way is dropped and never closed or awaited, as when a process dies.
            warnings.simplefilter("ignore")
            self._end(self._cancel_all)
            self._manager = self._outermost = None
            gc.collect()

    def _end(self, how: Callable[[], None]) -> None:
        assert self._loop is not None
        if self.running:
            self._loop.call_soon_threadsafe(how)
        self._thread.join(30)
        assert not self.running, "the manager does not end"

    def _cancel_all(self) -> None:
        # But for the outermost, which closes the connections: a process's death does that, too.
        for task in asyncio.all_tasks() - {self._outermost}:
            task.cancel()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        registry = new_registry()
        kubeconfig, waits = self._settings.kubeconfig, self._settings.waits
        async with Kube.connect(kubeconfig, user_agent="capvco", registry=registry) as kube:
            clouds = Clouds(kube, waits, self._settings.client, registry)
            self._manager = self._built(clouds)
            self._loop = asyncio.get_running_loop()
            self._outermost = asyncio.current_task()
            self._ready.set()
            try:
                await self._manager.run()
            finally:
                await clouds.close()

    def _built(self, clouds: Clouds) -> Manager:
        """Put together what ``build_manager`` does, without ports, election and signals."""
        caches = build_caches(clouds.kube, self._settings, clouds.registry)
        events = Recorder(clouds.kube, instance="stateful", registry=clouds.registry)
        controllers = build_controllers(clouds, caches, events, self._settings)
        return Manager(
            caches=(
                caches.clusters,
                caches.machines,
                caches.vco_clusters,
                caches.vco_machines,
                caches.templates,
            ),
            controllers=(controllers.clusters, controllers.machines, controllers.templates),
            recorder=events,
            background=(controllers.nodes.run,),
            signals=(),
        )
