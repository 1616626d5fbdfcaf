"""Which flags go together."""

import pytest

from capvco.cli.gpucheck.options import Mode, Options, check
from capvco.cli.spelling import spelled
from capvco.cli.unusable import Unusable


def test_one_hyphen_does_as_well_as_two() -> None:
    """The documented Go spelling works; values and short flags stay as they are."""
    tokens = ["-location", "X", "-list", "-name-prefix", "capvco-", "-type=a", "-o", "json", "-x"]
    assert spelled(tokens, Options) == [
        *("--location", "X", "--list", "--name-prefix", "capvco-", "--type=a", "-o", "json", "-x"),
    ]
    assert spelled(["--location", "-list-not", "-help"], Options) == [
        "--location",
        "-list-not",
        "--help",
    ]


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        (Options(), Mode.OFFERS),
        (Options(type_="a100"), Mode.TYPE),
        (Options(profile_id="p", count=2), Mode.TYPE),
        (Options(list_=True, name_prefix="capvco-"), Mode.LIST),
        (Options(release=True, all_locations=True), Mode.RELEASE),
        (Options(release=True, list_=True, location=("a",), yes=True), Mode.RELEASE),
    ],
)
def test_mode(options: Options, mode: Mode) -> None:
    """The flags say what is done."""
    check(options)
    assert options.mode is mode


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (Options(list_=True, type_="a100"), "--type"),
        (Options(type_="a100", profile_id="p"), "--profile-id"),
        (Options(location=("a",), all_locations=True), "--all-locations"),
        (Options(release=True), "--release needs --location"),
        (Options(release=True, all_locations=True, no_kubernetes=True), "--no-kubernetes"),
        (Options(secret="a/b", no_kubernetes=True), "--secret"),
        (Options(secret="a/b", jwt="x"), "--secret"),
        (Options(secret="a"), "namespace/name"),
        (Options(secret="a/b/c"), "namespace/name"),
        (Options(count=2), "--count"),
        (Options(type_="a100", count=0), "count"),
        (Options(type_="a100", count=17), "count"),
        (Options(type_="---"), "type"),
        (Options(profile_id="p", refuse_ambiguous_gpu_types=True), "--refuse-ambiguous"),
        (Options(name_prefix="x"), "--name-prefix"),
        (Options(min_age="1m"), "--min-age"),
        (Options(list_=True, min_age="soon"), "--min-age"),
        (Options(list_=True, min_age="-5"), "--min-age"),
        (Options(list_=True, yes=True), "--yes"),
        (Options(list_=True, no_wait=True), "--no-wait"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(options: Options, named: str) -> None:
    """Nothing is guessed where two flags contradict each other."""
    with pytest.raises(Unusable, match=named):
        check(options)


def test_durations() -> None:
    """As the manager reads them; fifteen minutes unless said."""
    assert Options().least_age == 900
    assert Options(min_age="1h30m").least_age == 5400
