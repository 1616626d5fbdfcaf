"""How long a reservation is provably held.

The list of vGPUs has no times. Two sources have: the record of the VCOMachine (exact), and the
platform's consumption, which names the vGPUs that cost something while no VM had them. It is
metered by the hour, so only hours that are over when the window ends count: what shows up there
existed before. That proves a least age, never an exact one.
"""

from collections.abc import Collection, Mapping

from capvco.vco.cloud import VCO
from capvco.vco.errors import VCOError

HOUR = 3600.0
DAY = 24 * HOUR
_RUNGS = (HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY)


async def least_ages(
    vco: VCO, location: str, ids: Collection[str], *, now: float, wanted: float
) -> tuple[Mapping[str, float], str]:
    """Return the least age in seconds of each unattached vGPU for which there is a proof.

    ``wanted`` is an age that is asked for besides the usual steps. The text says why nothing could
    be learnt, empty otherwise: that is no failure, since most of what is asked for is elsewhere.
    """
    proven: dict[str, float] = {}
    for rung in sorted({wanted, *_RUNGS} - {0.0}):
        end = (now - rung) // HOUR * HOUR
        try:
            used = await vco.locations.consumption(location, start=int(end - DAY), end=int(end))
        except VCOError as error:
            return proven, f"no ages from the consumption of {location}: {error}"
        present = {one.vgpu_id for one in used.unassigned_vgpus if one.consumption.vgu > 0}
        if not (found := present.intersection(ids)):
            break
        proven |= dict.fromkeys(found, rung)
    return proven, ""


def worded(seconds: float) -> str:
    """Write a length of time in its two largest units: 3d4h, 5h20m, 12m, 40s."""
    left, parts = int(seconds), list[str]()
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
