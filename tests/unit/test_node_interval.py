"""The flag for looks at the nodes of workload clusters."""

import pytest

from capvco.settings import parse


@pytest.mark.parametrize(("given", "seconds"), [("30s", 30.0), ("1m30s", 90.0), ("0.2", 0.2)])
def test_a_duration(given: str, seconds: float) -> None:
    """Written as all durations are."""
    assert parse(["--node-interval", given]).node_interval == seconds


def test_the_default() -> None:
    """As the guide says."""
    assert parse([]).node_interval == 30.0


@pytest.mark.parametrize("given", ["0", "0s", "-1"])
def test_no_pause_at_all(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Looking without a pause would load every workload cluster: it is refused at the start."""
    with pytest.raises(SystemExit):
        parse([f"--node-interval={given}"])
    assert "--node-interval must be more than 0" in capsys.readouterr().err
