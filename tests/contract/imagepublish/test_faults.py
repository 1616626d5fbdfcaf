"""Everything that can go wrong between the command and the platform, at every step."""

from typing import Any

import pytest

from capvco.cli.imagepublish.codes import Code
from tests.contract.imagepublish.conftest import ANY_PART, FINISH, NAME, START, Desk
from vcosim.control import Action, Match, When
from vcosim.stock import BE, NL

STEPS = [(START, 1), (ANY_PART, 1), (ANY_PART, 2), (ANY_PART, 3), (FINISH, 1)]
FAULTS: dict[str, dict[str, Any]] = {
    "lost before": {"kind": "lose_before"},
    "lost after": {"kind": "lose_after"},
    "500 before": {"kind": "status", "status": 500},
    "502 after": {"kind": "status", "status": 502, "committed": True},
    "503 as JSON": {"kind": "status", "status": 503, "html": False},
    "504 after": {"kind": "status", "status": 504, "committed": True},
    "429": {"kind": "status", "status": 429, "retry_after": 0},
    "429 after": {"kind": "status", "status": 429, "retry_after": 0, "committed": True},
    "a proxy's 400": {"kind": "status", "status": 400},
    "a proxy's 404": {"kind": "status", "status": 404},
    "truncated": {"kind": "truncate"},
    "truncated, cleanly": {"kind": "truncate", "clean": True},
    "empty": {"kind": "truncate", "clean": True, "keep": 0.0},
}
# A 429 says that nothing happened. A platform that lies about the end of an upload makes an image
# that cannot be told from a stranger's; the parts do not care.
LIE = ("429 after", FINISH)
CASES = [
    pytest.param(fault, route, nth, id=f"{fault}-{route.strip('$/')}-{nth}")
    for fault in FAULTS
    for route, nth in STEPS
    if (fault, route) != LIE
]


@pytest.mark.parametrize(("fault", "route", "nth"), CASES)
def test_one_fault_at_any_step_is_survived(desk: Desk, fault: str, route: str, nth: int) -> None:
    """By the same run; there is one image, with every byte, and its id is told."""
    desk.fail(**FAULTS[fault], route=route, when=When(nth=nth))
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}, ran.err
    desk.assert_published()
    assert ran.json["results"][0]["imageId"] == int(desk.images()[0]["id"])
    assert [one.fired for one in desk.control.faults.list()] == [1]


@pytest.mark.parametrize("fault", ["lost after", "504 after", "429"])
def test_a_fault_on_every_part_is_survived(desk: Desk, fault: str) -> None:
    """Each is sent twice, and none counts twice."""
    for number in (1, 2, 3):
        match = Match(path=f"/upload-part/{number}$")
        desk.control.faults.add(Action(**FAULTS[fault]), match, When(nth=1))
    assert desk.publish().outcomes == {BE: "published"}
    assert len(desk.calls(ANY_PART)) == 6
    desk.assert_published()


@pytest.mark.parametrize("seed", range(6))
def test_many_faults_at_once_only_take_more_runs(desk: Desk, seed: int) -> None:
    """At the end there is one image, never two."""
    kinds = ["lose_before", "lose_after", "truncate"]
    for number, kind in enumerate(kinds):
        match = Match(path="/vm-images")
        chance = When(probability=0.15, seed=seed * 10 + number)
        desk.control.faults.add(Action(kind=kind, clean=seed % 2 == 0), match, chance)  # type: ignore[arg-type]  # kinds of the list above
    runs = 0
    while (ran := desk.publish()).code != Code.FINE:
        runs += 1
        assert runs < 10, ran.err
        assert ran.code == Code.FAILED, ran.err
    desk.assert_published()


def test_a_part_that_never_gets_through_ends_the_run(desk: Desk) -> None:
    """With the cause; the next run sends only what is missing."""
    desk.control.faults.add(Action(kind="status", status=502), Match(path="/upload-part/3$"))
    ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.FAILED, {BE: "failed"})
    assert "502" in ran.detail
    assert ran.err.count("part 3: try") == 3
    desk.control.faults.clear()
    desk.control.clear_calls()
    assert desk.publish("--dry-run").detail == "2 of 3 parts are there already"
    assert desk.publish().outcomes == {BE: "published"}
    assert [call.path[-1] for call in desk.calls(ANY_PART)] == ["3"]
    assert not desk.calls(START)
    desk.assert_published()


def test_one_location_s_trouble_is_its_own(desk: Desk) -> None:
    """The others get the image; the next run does the rest."""
    desk.control.faults.add(
        Action(kind="status", status=500), Match(path=f"/{NL}/vm-images/.*/upload-part/2$")
    )
    ran = desk.publish(locations="all")
    assert (ran.code, ran.outcomes) == (Code.FAILED, {BE: "published", NL: "failed"})
    desk.control.faults.clear()
    again = desk.publish(locations="all")
    assert (again.code, again.outcomes) == (Code.FINE, {BE: "present", NL: "published"})
    desk.assert_published(NL)


def test_the_end_of_an_upload_is_not_repeated_blindly(desk: Desk) -> None:
    """Its answer is lost and the list lags: the image is waited for, not made again."""
    desk.fail("lag", FINISH, When(nth=1), seconds=0.15)
    desk.fail("lose_after", FINISH, When(nth=1))
    assert desk.publish().outcomes == {BE: "published"}
    assert len(desk.calls(FINISH)) == 1
    desk.assert_published()


def test_an_end_that_is_refused_after_a_lost_answer_is_unclear(desk: Desk) -> None:
    """Perhaps there is an image that no list shows yet: a person is asked to look."""
    desk.fail("lose_before", FINISH, When(nth=1))
    desk.fail("status", FINISH, When(nth=2), status=404, html=False)
    ran = desk.publish()
    assert ran.code == Code.FAILED
    assert "look into the portal" in ran.detail
    assert len(desk.calls(START)) == 1
    assert desk.publish().outcomes == {BE: "published"}
    desk.assert_published()


def test_what_the_platform_refuses_is_told_in_its_words(desk: Desk) -> None:
    """And not repeated; nothing is left over for the next run."""
    desk.fail("status", FINISH, When(nth=1), status=400, html=False)
    ran = desk.publish()
    assert ran.code == Code.FAILED
    assert "was answered 400" in ran.detail
    assert len(desk.calls(FINISH)) == 1
    assert desk.publish("--dry-run").detail == "all of it is to be uploaded"


def test_a_stranger_s_image_of_the_same_name_is_not_taken_for_ours(desk: Desk) -> None:
    """Where nobody can tell which is which, a person is asked to look; none is removed."""
    desk.control.set(image_create_reply="none")
    desk.fail("slow", FINISH, When(nth=1), seconds=0.3)

    def by_hand() -> None:
        query: dict[str, str | int | bool] = {"name": NAME, "url": "https://x.example/i"}
        query |= {"memory": 512, "boot_disk_size": 1, "boot_type": "bios"}
        query |= {"os_type": "Linux", "os_name": "Linux - other"}
        path = f"/customers/{desk.simulator.customer_id}/locations/{BE}/vm-images"
        desk.control.hand.call("POST", path, query=query)

    with desk.meanwhile(FINISH, 1, by_hand):
        ran = desk.publish()
    assert ran.code == Code.FAILED
    assert "several new images have this name" in ran.detail
    assert len(desk.images()) == 2


def test_a_token_that_is_refused_ends_the_run(desk: Desk) -> None:
    """As a matter of usage, and the state stays."""
    wrong = desk.environment | {"VCO_CLIENT_SECRET": "wrong-secret"}
    ran = desk.run(*desk.tokens(), environment=wrong)
    assert ran.code == Code.USAGE
    assert "wrong-secret" not in ran.out + ran.err


def test_a_token_that_ends_in_the_middle_is_renewed(desk: Desk) -> None:
    """A part that is refused with 401 is read and sent again from its beginning."""
    desk.fail("status", ANY_PART, When(nth=2), status=401, html=False)
    assert desk.publish().outcomes == {BE: "published"}
    desk.assert_published()


def test_a_platform_without_room_for_sense(desk: Desk) -> None:
    """Parts of no size are an error, no endless loop."""
    desk.control.set(upload_part_size=0)
    ran = desk.publish()
    assert ran.code == Code.FAILED
    assert "makes no sense" in ran.detail
