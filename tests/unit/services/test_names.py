"""Names, marks and labels: deterministic, legal, and nobody else's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.services import names
from tests.support.properties import always

DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def test_names_never_change() -> None:
    """What an earlier version made must be found again: these are written in clouds."""
    assert names.token("uid-1") == "4a49acf8"
    assert names.vgpu("worker-1", 0) == "capvco-worker-1-gpu-0"
    assert names.vgpu_alternatives("worker-1", 1, "uid-1")[:2] == (
        "capvco-worker-1-gpu-1",
        "capvco-worker-1-gpu-1-f5d7c799",
    )
    assert names.cluster_resource("default", "prod") == "capvco-default-prod"
    assert names.provider_id("be-g8-4", "default", "worker-1", "uid-1") == (
        "vco://be-g8-4/default/worker-1-4a49acf8"
    )
    assert names.description("VCOMachine", "default", "worker-1", "uid-1") == (
        "VCOMachine default/worker-1 of Cluster API [capvco:4a49acf8]"
    )


@always
@given(DNS, st.integers(0, 15), st.text(), st.text())
def test_alternatives(machine: str, slot: int, owner: str, other: str) -> None:
    """The traceable name comes first; the others are distinct, and each owner's own."""
    mine = names.vgpu_alternatives(machine, slot, owner)
    assert mine == names.vgpu_alternatives(machine, slot, owner)
    assert mine[0] == f"capvco-{machine}-gpu-{slot}"
    assert len(set(mine)) == len(mine) > 1
    assert all(name.startswith(mine[0]) for name in mine)
    if owner != other:
        assert not set(mine[1:]) & set(names.vgpu_alternatives(machine, slot, other)[1:])


@always
@given(DNS, st.integers(0, 15), st.integers(0, 15), st.text())
def test_slots_do_not_share_names(machine: str, slot: int, other: int, owner: str) -> None:
    """No name of one slot is a name of another slot of the machine."""
    if slot != other:
        one = names.vgpu_alternatives(machine, slot, owner)
        assert not set(one) & set(names.vgpu_alternatives(machine, other, owner))


@always
@given(DNS, DNS, DNS)
def test_cluster_resources(namespace: str, cluster: str, other: str) -> None:
    """A name fits the platform's limit, and two clusters of one namespace never share it."""
    name = names.cluster_resource(namespace, cluster)
    assert len(name) <= 63
    assert name.startswith("capvco-")
    assert re.fullmatch(r"[a-z0-9-]*[a-z0-9]", name)
    if cluster != other:
        assert name != names.cluster_resource(namespace, other)


@always
@given(DNS, DNS, DNS, st.text(min_size=1), st.text(min_size=1))
def test_provider_ids(location: str, namespace: str, machine: str, owner: str, other: str) -> None:
    """The last segment tells two machines of one name apart: that is what is compared."""
    mine = names.provider_id(location, namespace, machine, owner)
    assert mine.startswith(f"vco://{location}/{namespace}/{machine}-")
    assert len(mine.removeprefix("vco://").split("/")) == 3
    if owner != other:
        theirs = names.provider_id(location, namespace, machine, other)
        assert mine.rpartition("/")[2] != theirs.rpartition("/")[2]


@always
@given(DNS, DNS, st.text(), st.text())
def test_marks(namespace: str, name: str, owner: str, other: str) -> None:
    """A description is its owner's, and nobody else's."""
    text = names.description("VCOMachine", namespace, name, owner)
    assert names.is_marked(text, owner)
    assert names.is_marked(f"edited: {text} (see ticket)", owner)
    assert names.is_marked(text, other) == (owner == other)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "uid-1",
        "4a49acf8",
        "[capvco:]",
        "[capvco:4A49ACF8]",
        "[capvco:4a49acf]",
        "[capvco:4a49acf81]",
        "capvco:4a49acf8",
        "[CAPVCO:4a49acf8]",
    ],
)
def test_no_mark(text: str | None) -> None:
    """What merely resembles a mark is none."""
    assert not names.is_marked(text, "uid-1")
