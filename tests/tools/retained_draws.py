"""The slow twin of CTR-3: a picture as it must be if it is known what held devices drew once."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.store_picture import picture, places
from tests.tools.store_world import Drawn


def charge_retained(seen: Snapshot, retained: Mapping[DeviceID, Drawn]) -> dict[str, Any]:
    """The picture of a store that remembers nothing, with what others remember charged beside it.

    Counter for counter: the larger of what a device drew and what it draws in that generation, all
    generations for themselves. Then every device is judged again.
    """
    shown = picture(seen)
    of_row = _of_rows(seen)
    unusable = {(pool.id, generation) for pool in seen.fleet.pools for generation in pool.counters.problems}
    for counter in shown["counters"]:
        pool, generation, set_, name = counter
        if (pool, generation) in unusable:  # nothing of it is charged, whoever draws
            continue
        more = sum(
            max(drawn.get(set_, {}).get(name, 0) - _now(of_row, device, generation, set_, name), 0)
            for device, drawn in retained.items()
            if device.pool_id == pool
        )
        shown["counters"][counter] -= more
    over = {counter[:2] for counter, left in shown["counters"].items() if left < 0}
    for place, device in shown["devices"].items():
        pool, generation, draws = of_row[place]
        left = {
            counter[2:]: left
            for counter, left in shown["counters"].items()
            if counter[:2] == (pool, generation)
        }
        fits = all(much <= left[name] for name, much in draws.items() if much)
        fits = fits and not (draws and (pool, generation) in over) and device["open"]
        device["fits"] = fits
        device["free"] = (fits or device["sharing"]) and not device["held"]
    return shown


def _of_rows(seen: Snapshot) -> dict[Any, Any]:
    """Place of a device -> its pool, its generation, and what it draws: (set, counter) -> billionths."""
    drawn = picture(seen)["devices"]
    generations = {
        (pool.id, block.name): block.generation for pool in seen.fleet.pools for block in pool.blocks
    }
    found = {}
    for place in places(seen.fleet):
        pool = drawn[place]["id"].pool_id
        found[place] = (pool, generations[pool, place.slice], drawn[place]["draws"])
    return found


def _now(of_row: dict[Any, Any], device: DeviceID, generation: int, set_: str, name: str) -> int:
    return sum(
        draws.get((set_, name), 0)
        for place, (pool, of_generation, draws) in of_row.items()
        if (pool, of_generation, place.device) == (device.pool_id, generation, device.device)
    )
