"""What the columns of exclusion cost: they grow with the devices of a pool, not with their pairs."""

import numpy as np
import pytest

from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.exclusion_pairs import Conflict, scopes_apart
from tests.tools.builders import Object, device, node, resource_slice, snapshot


def wholes_and_parts(count: int) -> list[Object]:
    """Pattern 1 in a pool of the network: whole devices without counters, each with one part that draws."""
    made = []
    for at in range(count):
        physical = {"physicalDevice": f"dev-{at}"}
        expression = f'device.attributes["d"].physicalDevice != "dev-{at}"'
        made.append(device(f"full-{at}", physical, compatibleOnlyWith={"expression": expression}))
        made.append(device(f"part-{at}", physical, draws={f"cs-{at}": {"m": 1}}))
    return made


def exclusion_of(devices: list[Object], sets: int = 0) -> Exclusion:
    made = resource_slice("s", devices, allNodes=True)
    made["spec"]["sharedCounters"] = [
        {"name": f"cs-{at}", "counters": {"m": {"value": "1"}}} for at in range(sets)
    ]
    found = snapshot(node("n"), made).fleet.exclusion
    assert found is not None
    return found


def size(exclusion: Exclusion) -> int:
    return sum(array.nbytes for array in (exclusion.scopes, exclusion.names, exclusion.asks, exclusion.meets))


def test_each_physical_device_is_a_scope_of_its_own():
    found = exclusion_of(wholes_and_parts(20), sets=20)
    apart = found.scopes[:, -1].reshape(20, 2)
    assert (apart[:, 0] == apart[:, 1]).all()
    assert len(np.unique(apart)) == 20
    assert found.marks == 1


@pytest.mark.parametrize("count", [1300, 5200])
def test_thousands_of_expressions_need_no_columns_for_their_pairs(count: int):
    """10,400 devices. Most of the expressions are over the limit of one pool, so they are one mark."""
    found = exclusion_of(wholes_and_parts(count), sets=count)
    assert len(found.problems) > 1000
    assert size(found) < 200 * 2 * count


def test_thousands_of_devices_without_counters_need_few_words_each():
    modes = [
        device(
            f"d{at}",
            {"mode": f"m{at % 3}"},
            compatibleOnlyWith={"expression": f'device.attributes["d"].mode == "m{at % 3}"'},
        )
        for at in range(10_400)
    ]
    found = exclusion_of(modes)
    assert found.problems == ()
    assert size(found) < 40 * 10_400


def test_conflicts_that_meet_are_one_scope_and_places_stay_apart():
    def rows(*at: int) -> np.ndarray:
        mask = np.zeros(8, dtype=np.bool_)
        mask[list(at)] = True
        return mask

    place = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.int32)
    found = scopes_apart(
        [Conflict(rows(0, 4), rows(1)), Conflict(rows(2), rows(1, 5)), Conflict(rows(6), rows(7))], place
    )
    assert found.tolist() == [0, 0, 0, -1, -1, -1, 1, 1]
