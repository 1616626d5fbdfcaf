"""What is shown of a machine's vGPUs, and what is said of those that are amiss."""

from collections.abc import AsyncIterator

import pytest

from capvco.services.cloud import Cloud, Waits
from capvco.services.gpu_attachments import Attachments, view
from capvco.services.gpu_reservations import (
    Wanted,
    elsewhere,
    held,
    pinned,
    unanswered,
    used_up,
)
from capvco.services.gpu_types import Unavailable, choose
from capvco.services.inventory import Inventory
from capvco.vco.cloud import VCO
from capvco.vco.credentials import Credentials
from capvco.vco.models import GPUProfile
from tests.support.builders import (
    CLOUDSPACE,
    LOCATION,
    a_gpu_request,
    a_gpu_status,
    a_profile,
    a_record,
    a_slot,
    a_vgpu,
    a_vm_ref,
)

TWO = a_record(a_slot(), a_slot("capvco-worker-1-gpu-1", vgpu_id="vgpu-2", profile_id="card-2"))
WANTED = Wanted(
    machine="worker-1", location=LOCATION, cloudspace_id=CLOUDSPACE, request=a_gpu_request()
)


@pytest.fixture
async def attachments() -> AsyncIterator[Attachments]:
    """Attachments of a cloud that nothing here speaks to."""
    credentials = Credentials(api_url="https://vco.invalid/api/1", customer_id="c", jwt="x")
    async with VCO.open(credentials) as vco:
        yield Attachments(Cloud(vco, Inventory(vco), Waits()), WANTED)


def test_view_of_attached_and_loose() -> None:
    """Each held vGPU is shown with what it is, and attached if this machine's VM has it."""
    listed = (a_vgpu(vm=a_vm_ref(1)), a_vgpu("vgpu-2"))
    assert view(TWO, listed, 1) == (
        a_gpu_status(),
        a_gpu_status("vgpu-2", name="capvco-worker-1-gpu-1", profile_id="card-2", attached=False),
    )


@pytest.mark.parametrize("vm_id", [None, 2])
def test_view_of_another_vm(vm_id: int | None) -> None:
    """Attached to another VM, or looked at without one, is not attached."""
    shown = view(TWO, (a_vgpu(vm=a_vm_ref(1)), a_vgpu("vgpu-2", vm=a_vm_ref(1))), vm_id)
    assert [gpu.attached for gpu in shown] == [False, False]


def test_view_shows_only_what_is_held() -> None:
    """An attempt without a known outcome has no id to show; a stranger's vGPU is not ours."""
    record = a_record(a_slot(vgpu_id=""), a_slot("b", vgpu_id="vgpu-2"))
    shown = view(record, (a_vgpu("stranger", vm=a_vm_ref(1)),), 1)
    assert [gpu.vgpu_id for gpu in shown] == ["vgpu-2"]
    assert view(a_record(), (a_vgpu(),), 1) == ()


def test_held_and_unanswered() -> None:
    """A slot is one or the other, by its id."""
    record = a_record(a_slot("a"), a_slot("b", vgpu_id=""))
    assert [slot.name for slot in held(record)] == ["a"]
    assert [slot.name for slot in unanswered(record)] == ["b"]


@pytest.mark.parametrize(
    ("name", "cloudspace", "expected"),
    [
        ("worker-1", CLOUDSPACE, False),
        ("worker-2", CLOUDSPACE, True),
        ("worker-1", "cs-2", True),
    ],
)
def test_elsewhere(name: str, cloudspace: str, expected: bool) -> None:
    """Our VM is told by its name and its cloudspace, together."""
    vgpu = a_vgpu(vm=a_vm_ref(name=name, cloudspace=cloudspace))
    assert elsewhere(vgpu, WANTED) == expected


def test_loose_is_not_elsewhere() -> None:
    """What hangs on nothing hangs on nobody else's VM."""
    assert not elsewhere(a_vgpu(), WANTED)


async def test_no_problems(attachments: Attachments) -> None:
    """All listed and attached: nothing to say."""
    assert attachments.problems((a_gpu_status(),), (a_vgpu(),)) == ("", "")
    assert attachments.problems((), ()) == ("", "")


async def test_problems_in_words(attachments: Attachments) -> None:
    """What is not listed, or only in the recycle bin, is lost; what is loose is named."""
    gpus = (a_gpu_status("a"), a_gpu_status("b"), a_gpu_status("c", attached=False))
    listed = (a_vgpu("b", in_bin=True), a_vgpu("c"))
    assert attachments.problems(gpus, listed) == (
        "be-g8-4 does not list the reservation(s) a, b",
        "the vGPU(s) c are held but not attached to the machine's VM",
    )


def test_a_lost_card_is_used_up_and_still_there() -> None:
    """A refused card has no room; the request never slides to what it matches less well."""
    cards = (a_profile("1", model="A100"), a_profile("2", model="A100-SXM4-80GB", free=9))
    left = used_up(cards, {"1"})
    assert [card.available_instances for card in left] == [0, 9]
    with pytest.raises(Unavailable, match=r'^the GPU type "A100" has no room for 1 in this loc'):
        choose("A100", left, 1)
    assert choose("NVIDIA", left, 1).model.label == "NVIDIA A100-SXM4-80GB"
    assert used_up(cards, ()) == cards


def test_pinned_card() -> None:
    """A profile id serves from that card alone."""
    cards = (a_profile("1", free=1), a_profile("2", free=5))
    choice = pinned("1", cards, 1)
    assert [card.id for card in choice.cards] == ["1"]
    assert choice.note == ""


def test_pinned_card_without_room() -> None:
    """The message is about that card, not about others of its model."""
    with pytest.raises(Unavailable) as caught:
        pinned("1", (a_profile("1", free=1), a_profile("2", free=5)), 2)
    assert str(caught.value) == (
        'the GPU profile "1" has no room for 2: "NVIDIA" (1 card(s), 1 free, e.g. model'
        ' "A100-SXM4-80GB")'
    )


@pytest.mark.parametrize(
    ("cards", "available"),
    [
        ((), "none"),
        ((a_profile("card-1"),), '"card-1" (NVIDIA A100-SXM4-80GB 0000:3b:00.0)'),
    ],
)
def test_pinned_card_that_is_not_there(cards: tuple[GPUProfile, ...], available: str) -> None:
    """Ids are taken to the byte; the message lists those that exist."""
    with pytest.raises(Unavailable) as caught:
        pinned("CARD-1", cards, 1)
    assert str(caught.value) == (
        f'no GPU profile has the id "CARD-1" in this location; available: {available}'
    )
