"""The flags of capvco-gpucheck, and which of them make sense together."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Group, Parameter

from capvco import settings
from capvco.api.v1beta1.machine import GPURequest
from capvco.cli.account import Account, flag
from capvco.cli.gpucheck.offers import Request
from capvco.cli.secrets import named
from capvco.cli.unusable import Unusable

MIN_AGE = "15m"
_WHAT = Group("What to do (default: show what is offered)", sort_key=1)
_WHERE = Group("Where", sort_key=2)
_HOLDINGS = Group("With --list and --release", sort_key=3)
_KUBERNETES = Group("Kubernetes, which knows the owners", sort_key=4)
_OUTPUT = Group("Output", sort_key=6)


class Mode(StrEnum):
    """What a run does."""

    OFFERS = "offers"
    TYPE = "type"
    LIST = "list"
    RELEASE = "release"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(Account):
    """Everything that can be said on the command line."""

    list_: Annotated[
        bool, flag(_WHAT, "List what the customer holds, and whose it is.", "--list")
    ] = False
    release: Annotated[
        bool,
        flag(_WHAT, "Release orphans for good, after a second look; asks before it does."),
    ] = False
    type_: Annotated[
        str,
        flag(_WHAT, 'Say what a machine with this GPU type would get: "NVIDIA A100".', "--type"),
    ] = ""
    profile_id: Annotated[str, flag(_WHAT, "The same for one exact card.")] = ""
    count: Annotated[
        int | None, flag(_WHAT, "With --type or --profile-id: how many GPUs (default 1).")
    ] = None
    refuse_ambiguous_gpu_types: Annotated[
        bool, flag(_WHAT, "With --type: as the manager's flag of this name.")
    ] = False

    location: Annotated[
        tuple[str, ...], flag(_WHERE, "A location; may be given again (default: all).")
    ] = ()
    all_locations: Annotated[
        bool, flag(_WHERE, "All locations; --release wants it said, or --location.")
    ] = False

    name_prefix: Annotated[
        str | None, flag(_HOLDINGS, "Only reservations whose name begins so: capvco-")
    ] = None
    min_age: Annotated[
        str | None,
        flag(
            _HOLDINGS,
            "Leave alone what is not provably held for so long (default 15m). Where the platform"
            " does not tell, --release waits as long as that and looks again.",
        ),
    ] = None
    no_wait: Annotated[
        bool, flag(_HOLDINGS, "Do not wait: release only what is provably old enough.")
    ] = False
    yes: Annotated[bool, flag(_HOLDINGS, "Release without asking.")] = False

    kubeconfig: Annotated[
        tuple[Path, ...],
        flag(
            _KUBERNETES,
            "Kubeconfig of the management cluster; again for another one of the same customer"
            " (default: $KUBECONFIG, ~/.kube/config).",
        ),
    ] = ()
    no_kubernetes: Annotated[
        bool, flag(_KUBERNETES, "Do not ask Kubernetes; owners stay unknown.")
    ] = False
    secret: Annotated[
        str,
        flag(_KUBERNETES, "Take the credentials from this Secret of it, namespace/name."),
    ] = ""

    output: Annotated[
        Literal["table", "json"], flag(_OUTPUT, "table, or json.", "--output", "-o")
    ] = "table"

    @property
    def mode(self) -> Mode:
        """What the run does."""
        if self.release:
            return Mode.RELEASE
        if self.list_:
            return Mode.LIST
        return Mode.TYPE if self.type_ or self.profile_id else Mode.OFFERS

    @property
    def request(self) -> Request:
        """What a machine would ask for."""
        return Request(
            type=self.type_,
            profile_id=self.profile_id,
            count=1 if self.count is None else self.count,
            refuse_choice=self.refuse_ambiguous_gpu_types,
        )

    @property
    def least_age(self) -> float:
        """The minimum age in seconds. Raises Unusable."""
        try:
            return settings.duration(MIN_AGE if self.min_age is None else self.min_age)
        except argparse.ArgumentTypeError as error:
            raise Unusable(f"--min-age: {error}") from error


def check(options: Options) -> None:
    """Refuse what does not make sense together. Raises Unusable."""
    for wrong, text in (*_contradictions(options), *_out_of_place(options)):
        if wrong:
            raise Unusable(text)
    if options.least_age < 0:
        raise Unusable("--min-age cannot be negative")
    if options.mode is Mode.TYPE:
        _check_request(options.request)


def _check_request(request: Request) -> None:
    """Refuse what no VCOMachine could ask for: by the rules of its own fields."""
    asked = {"count": request.count}
    named = {"type": request.type} if request.type else {"profileId": request.profile_id}
    try:
        msgspec.convert(asked | named, GPURequest)
    except msgspec.ValidationError as error:
        raise Unusable(f"no machine can ask for {request}: {error}") from error


def _contradictions(o: Options) -> Iterable[tuple[bool, str]]:
    holdings = o.list_ or o.release
    resolving = bool(o.type_ or o.profile_id)
    yield holdings and resolving, "--type and --profile-id do not go with --list or --release"
    yield bool(o.type_ and o.profile_id), "give --type or --profile-id, not both"
    yield bool(o.location) and o.all_locations, "give --location or --all-locations, not both"
    yield (
        o.release and not (o.location or o.all_locations),
        "--release needs --location NAME, or --all-locations",
    )
    yield (
        o.release and o.no_kubernetes,
        "--release must ask Kubernetes whose each reservation is: leave --no-kubernetes out",
    )
    yield (
        bool(o.secret) and o.no_kubernetes,
        "--secret is read from Kubernetes: leave --no-kubernetes out",
    )
    yield bool(o.kubeconfig) and o.no_kubernetes, "give --kubeconfig or --no-kubernetes, not both"
    yield (
        bool(o.secret) and bool(o.given.values),
        "--secret holds all credentials: no flags about credentials beside it",
    )
    yield (
        bool(o.secret) and not named(o.secret),
        f'--secret must be namespace/name, not "{o.secret}"',
    )


def _out_of_place(o: Options) -> Iterable[tuple[bool, str]]:
    holdings, resolving = o.list_ or o.release, bool(o.type_ or o.profile_id)
    alone = "only goes with --type or --profile-id"
    yield o.count is not None and not resolving, f"--count {alone}"
    yield (
        o.refuse_ambiguous_gpu_types and not o.type_,
        "--refuse-ambiguous-gpu-types only goes with --type",
    )
    yield o.name_prefix is not None and not holdings, "--name-prefix needs --list or --release"
    yield o.min_age is not None and not holdings, "--min-age needs --list or --release"
    yield o.yes and not o.release, "--yes only goes with --release"
    yield o.no_wait and not o.release, "--no-wait only goes with --release"
