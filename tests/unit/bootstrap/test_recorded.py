"""What the real kubeadm bootstrap provider writes, as it was recorded, is usable."""

import pytest

from tests.support.bootstrap_check import check
from tests.support.bootstrap_data import FOLDER, NAMES, recorded


@pytest.mark.parametrize("name", NAMES)
def test_usable(name: str) -> None:
    """Kubelet arguments and steps are added; all else stays to the byte."""
    check(name, recorded(name))


def test_every_record_is_used() -> None:
    """A record that nobody writes any more would be checked for ever."""
    assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)
