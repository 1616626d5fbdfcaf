"""From flags to a run: file, credentials, locations, and the image that is to be made."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import msgspec
from prometheus_client import CollectorRegistry

from capvco.cli import access
from capvco.cli.imagepublish import state
from capvco.cli.imagepublish.content import Content
from capvco.cli.imagepublish.disk import Disk, inspect
from capvco.cli.imagepublish.options import Options
from capvco.cli.imagepublish.patience import Patience
from capvco.cli.imagepublish.publisher import Job, Publisher, everywhere
from capvco.cli.imagepublish.reports import Report
from capvco.cli.imagepublish.screen import Screen
from capvco.cli.imagepublish.systems import system
from capvco.cli.places import chosen
from capvco.cli.secrets import credentials_of
from capvco.cli.unusable import Unusable
from capvco.runtime.errors import Misconfigured
from capvco.runtime.kube import Kube
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.images import NewImage
from capvco.vco.settings import ClientSettings

_USER_AGENT = "capvco-imagepublish"
_READS = 2
"""Requests that stay possible beside the parts that are on their way."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run takes from outside; tests put their own in its place."""

    environment: Mapping[str, str]
    patience: Patience = field(default_factory=Patience)
    client: ClientSettings = field(default_factory=ClientSettings)


async def run(options: Options, world: World, screen: Screen) -> Report:
    """Publish, and return the report with its exit code. Raises Unusable and VCOError."""
    disk = inspect(options.file)
    planned = _image(options, disk)
    async with AsyncExitStack() as stack:
        content = stack.enter_context(Content.open(options.file))
        credentials = await _credentials(options, world)
        if options.given.shows_secrets:
            screen.note("note: others on this machine can see secrets in flags; use VCO_… instead")
        settings = _settings(world.client, options.parallel)
        vco = await stack.enter_async_context(VCO.open(credentials, settings=settings))
        locations = await chosen(vco, options.named_locations)
        tracks = stack.enter_context(screen.tracks())
        md5 = await content.md5(tracks.track("MD5 of the file", content.size).at)
        job = Job(
            vco=vco,
            image=msgspec.structs.replace(planned, md5_sum=md5),
            content=content,
            states=state.States(state.folder(world.environment, options.state_dir)),
            patience=msgspec.structs.replace(world.patience, ready=options.ready),
            allow_duplicate=options.allow_duplicate,
            dry_run=options.dry_run,
        )
        publishers = [
            Publisher(job=job, location=one, track=tracks.track(one, content.size))
            for one in locations
        ]
        results = await everywhere(publishers, options.parallel)
    report = Report(
        customer=credentials.customer_id,
        name=job.image.name,
        file=str(options.file),
        format=disk.format,
        size=content.size,
        virtual_size=disk.virtual_size,
        md5=md5,
        boot_type=job.image.boot_type,
        os_type=job.image.os_type,
        os_name=job.image.os_name,
        memory_mib=job.image.memory,
        boot_disk_gib=job.image.boot_disk_size,
        dry_run=options.dry_run,
        results=results,
    )
    return msgspec.structs.replace(report, exit_code=int(report.code))


def _image(options: Options, disk: Disk) -> NewImage:
    os_type, os_name = system(options.os_type, options.os_name)
    return NewImage(
        name=options.name,
        memory=options.least_memory(os_type),
        boot_disk_size=options.smallest_disk(disk),
        boot_type=options.boot_type,
        os_type=os_type,
        os_name=os_name,
    )


def _settings(client: ClientSettings, parallel: int) -> ClientSettings:
    concurrency = max(client.concurrency, parallel + _READS)
    return msgspec.structs.replace(client, concurrency=concurrency)


async def _credentials(options: Options, world: World) -> Credentials:
    if not options.secret:
        return access.credentials(options.given, world.environment)
    try:
        kube = Kube.connect(
            options.kubeconfig, user_agent=_USER_AGENT, registry=CollectorRegistry()
        )
    except Misconfigured as error:
        raise Unusable(str(error)) from error
    async with kube:
        return await credentials_of(kube, options.secret)
