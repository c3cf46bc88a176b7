"""Events played into a store and into a plain account of what is there: both must give the same picture."""

from collections.abc import Mapping
from itertools import product, zip_longest
from typing import Any

from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.store_events import Assume, Event, Forget, Look
from tests.tools.store_picture import picture, places
from tests.tools.store_world import Drawn, World


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


DEVICES = [DeviceID(*pool, name) for pool, name in product([("d", "p"), ("d", "q"), ("e", "p")], "ABC")]


def holders(store: Store) -> dict[DeviceID, list[Any]]:
    return {device: sorted(store.holders(device)) for device in DEVICES}


def happen(store: Store, world: World, event: Event, kept: list[tuple[Snapshot, World]]) -> None:
    """One event, in the store under test and in the plain account of what is there."""
    match event:
        case Look(keep=keep):
            seen = store.snapshot()
            if keep:
                kept.append((seen, world.copy()))
        case Assume():
            plan = world.plan(event)
            if plan is not None:
                store.assume(plan)
                world.assume(plan)
        case Forget():
            plan = world.plan_of(event)
            if plan is not None:
                store.forget(plan)
                world.forget(plan)
        case _:
            store.apply(event)
            world.apply(event)


def run(rules: Semantics, events: list[Event], ahead: list[int] | None = None) -> None:
    """Snapshots taken on the way are looked at only at the end: nothing that came later may show in them.

    ahead  after each event, how many steps towards the next snapshot are taken
    """
    store, world = Store(rules), World()
    kept: list[tuple[Snapshot, World]] = []
    for event, steps in zip_longest(events, ahead or [], fillvalue=0):
        if not isinstance(event, int):
            happen(store, world, event, kept)
        for _ in range(steps):
            store.supply.build_ahead(1)
    afresh = world.afresh(rules)
    assert picture(store.snapshot()) == expected(world, afresh)
    assert holders(store) == holders(afresh)
    for seen, then in kept:
        assert picture(seen) == expected(then, then.afresh(rules))


def expected(world: World, afresh: Store) -> dict[str, Any]:
    """The picture that a fresh listing gives, and beside it what is remembered of held devices."""
    return charge_retained(afresh.snapshot(), world.retained)
