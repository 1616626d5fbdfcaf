"""From flags to a connected run: management clusters, credentials, platform, locations."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec
from prometheus_client import CollectorRegistry

from capvco.cli import access
from capvco.cli.gpucheck.kubernetes import Management
from capvco.cli.gpucheck.options import Mode, Options
from capvco.cli.gpucheck.reports import AnyReport
from capvco.cli.gpucheck.screen import Screen
from capvco.cli.gpucheck.session import Session, World
from capvco.cli.places import chosen
from capvco.cli.secrets import credentials_of
from capvco.cli.unusable import Unusable
from capvco.runtime.errors import Misconfigured
from capvco.runtime.kube import Kube
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials

_USER_AGENT = "capvco-gpucheck"


async def run(options: Options, world: World, screen: Screen) -> AnyReport:
    """Connect, ask, and return the report with its exit code. Raises Unusable and VCOError."""
    if options.release and not (options.yes or screen.interactive):
        raise Unusable("--release asks before it releases, and here is no terminal: give --yes")
    async with AsyncExitStack() as stack:
        kubes, not_asked = await _connected(options, stack)
        credentials = await _credentials(options, world, kubes)
        if options.given.shows_secrets:
            screen.note("note: others on this machine can see secrets in flags; use VCO_… instead")
        vco = await stack.enter_async_context(VCO.open(credentials))
        management = Management(
            kubes, credentials.customer_id, related=bool(options.secret), not_asked=not_asked
        )
        locations = await chosen(vco, options.location)
        session = Session(
            options=options,
            world=world,
            screen=screen,
            vco=vco,
            management=management,
            locations=locations,
        )
        report = await session.report()
        return msgspec.structs.replace(report, exit_code=int(report.code))


async def _credentials(options: Options, world: World, kubes: Sequence[Kube]) -> Credentials:
    if options.secret:
        return await credentials_of(kubes[0], options.secret)
    return access.credentials(options.given, world.environment)


async def _connected(options: Options, stack: AsyncExitStack) -> tuple[tuple[Kube, ...], str]:
    """Open the management clusters, or say why there is none to ask."""
    if options.no_kubernetes:
        return (), "Kubernetes was not asked (--no-kubernetes)"
    if options.mode not in {Mode.LIST, Mode.RELEASE} and not options.secret:
        return (), ""
    opened = list[Kube]()
    for path in options.kubeconfig or (None,):
        try:
            kube = Kube.connect(path, user_agent=_USER_AGENT, registry=CollectorRegistry())
        except Misconfigured as error:
            if path is not None or options.secret:
                raise Unusable(str(error)) from error
            return (), f"Kubernetes was not asked: {error}"
        opened.append(await stack.enter_async_context(kube))
    return tuple(opened), ""
