"""Events played into a store and into a plain account of what is there: both must give the same picture."""

from itertools import product, zip_longest
from typing import Any

from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.retained_draws import charge_retained
from tests.tools.store_events import Assume, Event, Forget, Look
from tests.tools.store_picture import picture
from tests.tools.store_world import World

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
            store.build_ahead(1)
    afresh = world.afresh(rules)
    assert picture(store.snapshot()) == expected(world, afresh)
    assert holders(store) == holders(afresh)
    for seen, then in kept:
        assert picture(seen) == expected(then, then.afresh(rules))


def expected(world: World, afresh: Store) -> dict[str, Any]:
    """The picture that a fresh listing gives, and beside it what is remembered of held devices."""
    return charge_retained(afresh.snapshot(), world.retained)
