"""The durable record in an annotation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.api.v1beta1 import RECORD_ANNOTATION
from capvco.services.record import CorruptRecord, Record, Slot, dump, read
from tests.support.builders import a_record, a_slot
from tests.support.properties import always

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TIME = st.floats(0, 4e9)
SLOTS = st.builds(Slot, name=TEXT, profile_id=TEXT, model=TEXT, at=TIME, vgpu_id=TEXT)
RECORDS = st.builds(
    Record,
    owner=TEXT,
    customer=TEXT,
    identity=TEXT,
    gpus=st.lists(SLOTS, max_size=4, unique_by=lambda slot: slot.name).map(tuple),
    lost=st.lists(TEXT, max_size=3).map(tuple),
    vm_at=TIME,
    location=TEXT,
    cloudspace_id=TEXT,
    cloudspace_name=TEXT,
    cloudspace_at=TIME,
    endpoint=st.booleans(),
)


@always
@given(RECORDS)
def test_what_is_stored_is_read(record: Record) -> None:
    """Every field survives, to the last digit; the same record is the same text."""
    text = dump(record)
    assert read({RECORD_ANNOTATION: text, "other": "x"}) == record
    assert dump(record) == text


def test_the_form_never_changes() -> None:
    """What an earlier version stored must be read: this is in other people's clusters."""
    text = (
        '{"owner":"uid-worker-1","customer":"customer-1","identity":"vco-credentials",'
        '"gpus":[{"name":"capvco-worker-1-gpu-0","profileId":"card-1",'
        '"model":"NVIDIA A100-SXM4-80GB","at":1000.0,"vgpuId":"vgpu-1"}],'
        '"lost":["capvco-worker-1-gpu-0-0a1b2c3d"],"vmAt":1001.5,'
        '"location":"be-g8-4","cloudspaceId":"cs-1"}'
    )
    record = a_record(a_slot(), lost=("capvco-worker-1-gpu-0-0a1b2c3d",), vm_at=1001.5)
    assert read({RECORD_ANNOTATION: text}) == record
    assert dump(record) == text


def test_a_later_version_is_read() -> None:
    """A field that this version does not know is no reason to stop."""
    text = json.dumps({"owner": "uid", "somethingNew": [1, 2]})
    assert read({RECORD_ANNOTATION: text}) == Record(owner="uid")


def test_no_record_yet() -> None:
    """An object that nothing was done for has none."""
    assert read({}) is None
    assert read({"other": "{}"}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "[]",
        "{}",
        "true",
        '{"owner": 5}',
        '{"owner": null}',
        '{"owner": "x"',
        '{"owner": "x"} trailing',
        '{"owner": "x", "gpus": {}}',
        '{"owner": "x", "gpus": [{"name": "a"}]}',
        '{"owner": "x", "gpus": [{"name": "a", "profileId": "p", "model": "m", "at": "soon"}]}',
        '{"owner": "x", "vmAt": NaN}',
        '{"owner": "x", "lost": "abc"}',
        "{'owner': 'x'}",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    """Half a record is no record: the message names the annotation and what to do."""
    with pytest.raises(CorruptRecord) as caught:
        read({RECORD_ANNOTATION: text})
    said = str(caught.value)
    assert said.startswith(f"the annotation {RECORD_ANNOTATION} is not readable (")
    assert said.endswith("restore it, or list what is held with capvco-gpucheck")


@always
@given(RECORDS, st.data())
def test_any_cut_is_noticed(record: Record, data: st.DataObject) -> None:
    """A record that was cut anywhere is corrupt, never a smaller record."""
    text = dump(record)
    with pytest.raises(CorruptRecord):
        read({RECORD_ANNOTATION: text[: data.draw(st.integers(0, len(text) - 1))]})


@always
@given(RECORDS, SLOTS)
def test_slots_by_name(record: Record, slot: Slot) -> None:
    """A slot replaces the one of its name in place, or comes last; all others stay as they are."""
    before = [s.name for s in record.gpus]
    after = record.with_slot(slot)
    expected = before if slot.name in before else [*before, slot.name]
    assert [s.name for s in after.gpus] == expected
    assert slot in after.gpus
    assert {s for s in after.gpus if s.name != slot.name} == {
        s for s in record.gpus if s.name != slot.name
    }
    assert after.with_slot(slot) == after
    without = after.without_slot(slot.name)
    assert without == record.without_slot(slot.name)
    assert slot.name not in {s.name for s in without.gpus}


def test_a_record_is_not_changed_in_place() -> None:
    """Adding and removing make new records."""
    record = a_record(a_slot())
    record.without_slot("capvco-worker-1-gpu-0")
    record.with_slot(a_slot("other"))
    assert record == a_record(a_slot())
