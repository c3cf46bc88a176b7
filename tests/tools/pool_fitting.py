"""What fits, and what is left of the counters, in a few words."""

from reconciler.api.objects.quantity import NANO
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import Object
from tests.tools.store_picture import picture

ON_N: Object = {"nodeName": "n"}
TWO: Object = {"slices": 2}


def fitting(seen: Snapshot, pool: tuple[str, str] = ("d", "p")) -> str:
    found = picture(seen)["devices"].items()
    return " ".join(place.device for place, d in found if d["fits"] and place[:2] == pool)


def left(seen: Snapshot) -> dict[str, int]:
    """Counter -> what is left in whole units, over all pools."""
    return {
        f"{pool}/{name}": nanos // NANO for (pool, _, _, name), nanos in picture(seen)["counters"].items()
    }
