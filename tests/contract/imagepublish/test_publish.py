"""The course of a publication where nothing goes wrong, and what is refused."""

import hashlib
from pathlib import Path
from urllib.parse import parse_qs

from capvco.cli.imagepublish.codes import Code
from capvco.cli.imagepublish.state import States, folder
from tests.contract.imagepublish.conftest import ANY_PART, FINISH, NAME, START, Desk
from tests.support.disks import GIB, a_qcow2, a_raw_disk
from vcosim.control import Action, Match, When
from vcosim.stock import BE, NL

PUBLIC = "Ubuntu 24.04 Kubernetes (bios)"


def test_an_image_gets_into_all_locations(desk: Desk) -> None:
    """Every byte, with its MD5, and the id of each location is told."""
    ran = desk.publish(locations="all")
    assert ran.code == Code.FINE, ran.err
    assert ran.outcomes == {BE: "published", NL: "published"}
    for row in ran.json["results"]:
        desk.assert_published(row["location"])
        (made,) = desk.images(location=row["location"])
        assert (int(made["id"]), row["status"]) == (row["imageId"], "CREATED")
    (finish,) = desk.calls(FINISH)
    md5 = hashlib.md5(desk.image.read_bytes()).hexdigest()
    assert parse_qs(finish.query)["md5_sum"] == [md5] == [ran.json["md5"]]
    assert len(desk.calls(ANY_PART)) == 3


def test_what_the_image_is_made_with(desk: Desk) -> None:
    """By flag; the boot disk from the file."""
    what = ("-boot-type", "uefi", "-os-name", "debian 10", "-memory", "2048")
    ran = desk.publish(*what)
    (made,) = desk.images()
    assert (made["boot_type"], made["os_type"], made["os_name"]) == ("uefi", "Linux", "Debian 10")
    assert (made["memory"], made["boot_disk_size"]) == (2048, 3)
    assert (ran.json["bootType"], ran.json["bootDiskGiB"]) == ("uefi", 3)
    assert (ran.json["format"], ran.json["virtualSize"]) == ("qcow2", 3 * GIB)


def test_a_raw_disk_and_a_size_that_is_a_multiple_of_the_part(desk: Desk) -> None:
    """No empty part at the end."""
    a_raw_disk(desk.image, 8192)
    assert desk.publish("--boot-disk-size", "9").code == Code.FINE
    desk.assert_published()
    assert len(desk.calls(ANY_PART)) == 2
    assert desk.images()[0]["boot_disk_size"] == 9


def test_the_id_is_found_by_name_where_the_platform_does_not_tell_it(desk: Desk) -> None:
    """Whatever the platform answers to the end of an upload."""
    desk.control.set(image_create_reply="none", no_schema_body="empty")
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}
    assert ran.json["results"][0]["imageId"] == int(desk.images()[0]["id"])


def test_it_waits_until_the_image_is_usable(desk: Desk) -> None:
    """Where the platform answers before its work is done."""
    desk.control.set(replies="early", image_seconds=0.2)
    ran = desk.publish()
    assert (ran.code, ran.json["results"][0]["status"]) == (Code.FINE, "CREATED")


def test_a_second_run_finds_what_the_first_did(desk: Desk) -> None:
    """And uploads nothing."""
    first = desk.publish(locations="all")
    again = desk.publish(locations="all")
    assert again.outcomes == {BE: "present", NL: "present"}
    assert [row["imageId"] for row in again.json["results"]] == [
        row["imageId"] for row in first.json["results"]
    ]
    assert len(desk.calls(START)) == 1


def test_a_name_that_is_taken_is_refused(desk: Desk) -> None:
    """With the id that has it; also one that is public; nothing is uploaded."""
    assert desk.publish().code == Code.FINE
    a_qcow2(desk.image, seed=1)
    ran = desk.publish(locations="all")
    assert ran.code == Code.DUPLICATE
    assert ran.outcomes == {BE: "duplicate", NL: "published"}
    assert "--allow-duplicate" in ran.json["results"][0]["detail"]
    public = desk.run("-name", PUBLIC, "-file", str(desk.image), "-locations", BE, "-o", "json")
    assert (public.code, public.detail.split(":")[0]) == (Code.DUPLICATE, "201 (public)")
    assert len(desk.calls(START)) == 1


def test_unless_told(desk: Desk) -> None:
    """Then there are two; also of the same file."""
    desk.publish()
    a_qcow2(desk.image, seed=1)
    assert desk.publish("--allow-duplicate").outcomes == {BE: "published"}
    assert desk.publish("--allow-duplicate").outcomes == {BE: "published"}
    assert len(desk.images()) == 3


def test_an_image_that_is_gone_is_published_again(desk: Desk) -> None:
    """What an earlier run noted does not count against the platform's list."""
    first = desk.publish().json["results"][0]["imageId"]
    path = f"/customers/{desk.simulator.customer_id}/locations/{BE}/vm-images/{first}"
    desk.control.hand.call("DELETE", path, query={"permanently": True})
    ran = desk.publish()
    assert ran.outcomes == {BE: "published"}
    assert ran.json["results"][0]["imageId"] != first


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    """It says what would be, in every case."""
    ran = desk.publish("--dry-run", locations="all")
    assert (ran.code, ran.json["dryRun"]) == (Code.FINE, True)
    assert ran.outcomes == {BE: "planned", NL: "planned"}
    assert not desk.calls("/upload")
    desk.publish()
    assert desk.publish("--dry-run").outcomes == {BE: "present"}
    a_qcow2(desk.image, seed=1)
    assert desk.publish("--dry-run").code == Code.DUPLICATE


def test_a_failed_import_is_cleared_away(desk: Desk) -> None:
    """And can be tried again."""
    desk.control.set(image_ends="ERROR")
    ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.IMPORT_FAILED, {BE: "import-failed"})
    assert "ended as ERROR" in ran.detail
    assert "it was removed" in ran.detail
    assert not desk.images()
    desk.control.set(image_ends="CREATED")
    assert desk.publish().outcomes == {BE: "published"}


def test_a_failed_image_that_cannot_be_removed_is_named(desk: Desk) -> None:
    """A person has to."""
    desk.control.set(image_ends="ERROR")
    refused = Action(kind="status", status=403, html=False)
    desk.control.faults.add(refused, Match(method="DELETE", route="/vm-images/"))
    ran = desk.publish()
    assert ran.code == Code.IMPORT_FAILED
    assert "remove it in the portal" in ran.detail
    assert ran.json["results"][0]["imageId"] == int(desk.images()[0]["id"])


def test_an_image_with_another_boot_type_is_a_failure(desk: Desk) -> None:
    """No machine of the wanted boot type could be made of it."""
    desk.control.set(image_boot_type="uefi")
    ran = desk.publish("-boot-type", "bios")
    assert ran.code == Code.IMPORT_FAILED
    assert "its boot type is uefi, not bios" in ran.detail
    assert not desk.images()


def test_an_import_that_takes_too_long_is_waited_for_by_the_next_run(desk: Desk) -> None:
    """Which uploads nothing."""
    desk.control.set(replies="early", image_seconds=1000)
    ran = desk.publish(timeout="0.1s")
    assert (ran.code, ran.outcomes) == (Code.NOT_READY, {BE: "not-ready"})
    assert ran.json["results"][0]["status"] == "CREATING"
    assert desk.publish("--dry-run").detail == "uploaded; its import is waited for"
    desk.control.clock.advance(2000)
    again = desk.publish()
    assert (again.code, again.outcomes) == (Code.FINE, {BE: "published"})
    assert len(desk.calls(START)) == 1


def test_wrong_locations_are_listed_with_what_is_possible(desk: Desk) -> None:
    """All of them, before anything is read or sent."""
    ran = desk.publish(locations=f"nowhere,{BE},elsewhere")
    assert ran.code == Code.USAGE
    assert 'no location "nowhere" and no "elsewhere"' in ran.err
    assert f"available: {BE}, {NL}" in ran.err
    assert not desk.calls("/vm-images")


def test_a_file_that_is_no_disk_is_refused_before_anybody_is_asked(desk: Desk) -> None:
    """So it needs no credentials."""
    desk.image.write_bytes(b"\x1f\x8b" + b"\0" * 1000)
    ran = desk.run(*desk.tokens(), environment={})
    assert ran.code == Code.USAGE
    assert "compressed by gzip" in ran.err


def test_two_runs_do_not_mix(desk: Desk) -> None:
    """The second one says so."""
    md5 = hashlib.md5(desk.image.read_bytes()).hexdigest()
    where = (desk.simulator.url, desk.simulator.customer_id, BE)
    states = States(folder(desk.environment, None))
    with states.slot(*where, NAME, "bios", md5):
        ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.FAILED, {BE: "failed"})
    assert "another run" in ran.detail


def test_a_file_that_is_written_to_meanwhile_is_not_published(desk: Desk) -> None:
    """Parts of two files would be mixed; what is there already cannot become an image."""
    desk.fail("slow", ANY_PART, When(nth=2), seconds=0.5)
    with desk.meanwhile(ANY_PART, 2, lambda: a_qcow2_over(desk.image)):
        ran = desk.publish()
    assert (ran.code, ran.outcomes) == (Code.FAILED, {BE: "failed"})
    assert "was changed while it was being published" in ran.detail
    assert not desk.images()
    assert desk.publish().outcomes == {BE: "published"}
    desk.assert_published()


def a_qcow2_over(path: Path) -> None:
    a_qcow2(path, seed=2, length=9_000)
