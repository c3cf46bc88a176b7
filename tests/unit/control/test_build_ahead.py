"""A fleet that is assembled apart from the store, which changes meanwhile."""

import asyncio
from collections.abc import Callable

import pytest

from reconciler.api.objects.changes import Change, Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.control.build_ahead import build_ahead
from reconciler.state.devices import inventory
from reconciler.state.devices.inventory import Assembled, Assembly
from reconciler.state.store import Store
from tests.tools.builders import device, held, hold, node, resource_slice, taint, taint_rule, typed
from tests.tools.store_picture import picture

POOLS = 12


@pytest.fixture(autouse=True)
def _few_pools_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MANY_POOLS", POOLS)


def pool(number: int, model: str = "x") -> Changed:
    """A pool of one device."""
    raw = resource_slice(f"s{number}", [device("A", {"model": model})], pool=f"p{number:04}", nodeName="n")
    return Changed("ResourceSlice", typed(raw))


def changed(raw: dict[str, object]) -> Changed:
    return Changed(str(raw["kind"]), typed(raw))


BEGINNING = [changed(node("n")), *map(pool, range(POOLS))]
CHANGES: dict[str, list[Change]] = {
    "nothing": [],
    "a slice": [pool(3, "y")],
    "a new pool": [pool(5000)],
    "a pool less": [Removed("ResourceSlice", ObjectKey("", "s3"))],
    "a new node": [changed(node("m")), changed(resource_slice("s9", [device("A")], pool="p9", nodeName="m"))],
    "a claim": [changed(held("c", hold("A", pool="p0003")))],
    "a rule": [changed(taint_rule("r", {"driver": "d"}, taint("t")))],
}


def ready() -> Store:
    store = Store(Semantics())
    for change in BEGINNING:
        store.apply(change)
    while store.supply.inventory.build_ahead(POOLS):
        pass
    return store


def built_ahead(store: Store) -> None:
    while store.supply.inventory.build_ahead(1):
        pass


THEN: dict[str, Callable[[Store], object]] = {
    "a slice": lambda store: store.snapshot(),
    "a claim": built_ahead,
    "a pool less": built_ahead,
}
"""What else the store does meanwhile; otherwise nothing"""


def test_a_first_fleet_of_few_pools_with_many_devices_is_joined_apart(monkeypatch: pytest.MonkeyPatch):
    """Partitions come by hundreds a machine. Later changes touch a pool or two, which is fast."""
    monkeypatch.setattr(inventory, "MANY_DEVICES", 3)
    store = Store(Semantics())
    for change in (changed(node("n")), pool(0), pool(1)):
        store.apply(change)
    built_ahead(store)
    assert store.supply.assembly() is None
    store.apply(pool(2))
    built_ahead(store)
    work = store.supply.assembly()
    assert work is not None
    store.adopt(work.run())
    assert store.snapshot().fleet.size == 3
    store.apply(pool(2, "y"))
    built_ahead(store)
    assert store.supply.assembly() is None


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_meanwhile_is_in_the_next_snapshot(what: str):
    store, meanwhile = ready(), CHANGES[what]
    work = store.supply.assembly()
    assert work is not None
    for change in meanwhile:
        store.apply(change)
    THEN.get(what, lambda _: None)(store)
    store.adopt(work.run())
    expected = Store(Semantics())
    for change in [*BEGINNING, *meanwhile]:
        expected.apply(change)
    assert picture(store.snapshot()) == picture(expected.snapshot())


def test_an_assembled_fleet_is_the_one_of_the_snapshot():
    store = ready()
    work = store.supply.assembly()
    assert work is not None
    assembled = work.run()
    store.adopt(assembled)
    assert store.supply.assembly() is None
    assert store.snapshot().topology is assembled.topology


async def test_many_pools_are_joined_while_the_loop_runs():
    store = Store(Semantics())
    for change in BEGINNING:
        store.apply(change)
    building = asyncio.create_task(build_ahead(store))
    await asyncio.sleep(0)
    store.apply(pool(3, "y"))
    await building
    expected = Store(Semantics())
    for change in [*BEGINNING, pool(3, "y")]:
        expected.apply(change)
    assert picture(store.snapshot()) == picture(expected.snapshot())


async def test_two_who_need_the_next_snapshot_join_its_fleet_once(monkeypatch: pytest.MonkeyPatch):
    """As the audit and the decisions do after each change."""
    store, joined, run = ready(), [], Assembly.run

    def counted(self: Assembly) -> Assembled:
        joined.append(self)
        return run(self)

    monkeypatch.setattr(Assembly, "run", counted)
    await asyncio.gather(build_ahead(store), build_ahead(store))
    assert len(joined) == 1


def test_few_pools_are_left_to_the_snapshot():
    store = ready()
    store.snapshot()
    store.apply(pool(3, "y"))
    built_ahead(store)
    assert store.supply.assembly() is None
