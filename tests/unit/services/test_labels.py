"""Labels of nodes: always legal, the same for all cards alike, and whose value counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capvco.services.labels import node_labels, slug, to_put_back
from tests.support.properties import always

PREFIX = "capvco.infrastructure.cluster.x-k8s.io"
MODEL, SITE = f"{PREFIX}/gpu-model", f"{PREFIX}/failure-domain"
ACCELERATOR = "cluster-api/accelerator"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
LEGAL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
ANY = st.one_of(st.text(st.characters(), max_size=80), st.text("aB1 -_.", min_size=50, max_size=90))


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("NVIDIA A100", "nvidia-a100"),
        ("Physical Nvidia 0x27b8", "physical-nvidia-0x27b8"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
        ("Dummy Dummy GPU", "dummy-gpu"),
        ("NVIDIA nvidia-a100", "nvidia-a100"),
        ("Physical Nvidia Physical Nvidia 0x27b8", "physical-nvidia-0x27b8"),
        ("A A", "a"),
        ("  (NVIDIA)  L4/24G_ ", "nvidia-l4-24g"),
    ],
)
def test_slugs(model: str, label: str) -> None:
    """As the page on mixed clusters writes them."""
    assert slug(model) == label


@always
@given(ANY)
def test_any_model_makes_a_legal_label(model: str) -> None:
    """Whatever the platform reports, Kubernetes takes the label, and it is never empty."""
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", slug(model))


def test_what_a_node_says() -> None:
    """What it has, and where it is."""
    assert node_labels("NVIDIA A100", "north", "be-g8-4") == {
        MODEL: "nvidia-a100",
        ACCELERATOR: "nvidia-a100",
        SITE: "north",
        ZONE: "north",
        REGION: "be-g8-4",
    }
    assert set(node_labels("", "north", "be-g8-4")) == {SITE, ZONE, REGION}


@always
@given(ANY, ANY, ANY)
def test_an_illegal_name_costs_no_other_label(model: str, site: str, location: str) -> None:
    """What is no legal value is left out, and all that is left is legal."""
    labels = node_labels(model, site, location)
    assert all(re.fullmatch(LEGAL, value) for value in labels.values())
    assert (MODEL in labels) == (ACCELERATOR in labels) == bool(model)
    assert (ZONE in labels) == (SITE in labels) == bool(re.fullmatch(LEGAL, site))
    assert (REGION in labels) == bool(re.fullmatch(LEGAL, location))


WANTED = node_labels("NVIDIA A100", "north", "be-g8-4")


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({}, WANTED),
        (WANTED, {}),
        (WANTED | {"team": "blue"}, {}),
        (WANTED | {MODEL: "other"}, {MODEL: "nvidia-a100"}),
        (WANTED | {SITE: ""}, {SITE: "north"}),
        (WANTED | {ZONE: "rack-7", REGION: "eu", ACCELERATOR: "mine"}, {}),
        ({ZONE: "rack-7"}, {k: v for k, v in WANTED.items() if k != ZONE}),
    ],
)
def test_who_wins(present: dict[str, str], expected: dict[str, str]) -> None:
    """Of our own keys we do; the others are set where they are missing."""
    assert to_put_back(present, WANTED) == expected
