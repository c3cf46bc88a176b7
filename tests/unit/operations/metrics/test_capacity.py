"""Devices and counters by driver: array work says what a plain walk over devices says."""

from random import Random

import pytest

from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.lines import lines
from reconciler.analysis.capacity.measure import Solver, measure
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.operations.metrics.catalogue import MAX_COUNTERS, MAX_DRIVERS, OTHER
from reconciler.operations.metrics.devices import Capacity
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.small_fleet import Object, claim, devices, held

DRIVERS = ("a.example.com", "b.example.com")


STATES = ("held", "shared", "allocatable", "tainted", "blocked")


def counters(memory: str, engines: str) -> Object:
    return {"memory": {"value": memory}, "engines": {"value": engines}}


def partitioned(pool: str, driver: str, sets: int, *, generation: int = 1, whole: bool = True) -> Object:
    """A pool of GPUs, each a counter set of 8 memory slices, as one whole device and two halves."""
    names = [f"gpu{n}" for n in range(sets)]
    sizes = (("whole", 8), ("left", 4), ("right", 4))
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{pool}-{driver}-{generation}"},
        "spec": {
            "driver": driver,
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1 if whole else 2},
            "sharedCounters": [
                {"name": n, "counters": {"memory": {"value": "8Gi"}, "engines": {"value": "3"}}}
                for n in names
            ],
            "devices": [
                {
                    "name": f"{name}-{part}",
                    "consumesCounters": [
                        {
                            "counterSet": name,
                            "counters": {"memory": {"value": f"{size}Gi"}, "engines": {"value": "1"}},
                        }
                    ],
                }
                for name in names
                for part, size in sizes
            ],
        },
    }


def plain(world: Snapshot) -> dict[str, dict[str, int]]:
    """Device by device, with the rules spelled out."""
    found: dict[str, dict[str, int]] = {}
    occupancy, fleet = world.occupancy, world.fleet
    for pool in fleet.pools:
        states = found.setdefault(pool.id.driver, dict.fromkeys(STATES, 0))
        newest = max(block.generation for block in pool.blocks)
        for row in range(pool.size):
            at = int(fleet.start[fleet.index[pool.id]]) + row
            block = next(b for b, end in zip(pool.blocks, pool.offsets[1:], strict=True) if row < end)
            wanted = block.slice_count
            if sum(b.generation == block.generation for b in pool.blocks) != wanted:
                continue
            assert block.generation == newest
            if occupancy.held[at]:
                states["held"] += 1
            elif occupancy.sharing[at]:
                states["shared"] += 1
            else:
                states["allocatable" if occupancy.fits[at] else "blocked"] += 1
    return found


def states(capacity: Capacity) -> dict[str, int]:
    """How many devices of the first driver are in each state. None is tainted."""
    found = dict(capacity.holdings.devices[DRIVERS[0]])
    assert found.pop("tainted") == 0
    return found


def store_with(*objects: Object) -> Store:
    store = Store(Semantics())
    put(store, *objects)
    return store


def put(store: Store, *objects: Object) -> None:
    for number, obj in enumerate(objects):
        metadata = {"uid": obj["metadata"]["name"], "resourceVersion": str(number + 1), **obj["metadata"]}
        thing = read({**obj, "metadata": metadata})
        store.apply(Changed(obj["kind"], thing))


@pytest.mark.parametrize("seed", range(10))
async def test_counts_follow_whatever_happens(seed: int):
    random = Random(seed)
    store = store_with(*(partitioned(f"n{n}", random.choice(DRIVERS), n % 3 + 1) for n in range(6)))
    capacity = Capacity(store.snapshot)
    for step in range(30):
        pool, driver = f"n{random.randrange(6)}", random.choice(DRIVERS)
        match random.randrange(4):
            case 0:
                whole = random.random() < 0.7
                put(store, partitioned(pool, driver, random.randrange(1, 4), whole=whole))
            case 1:
                name = f"gpu{random.randrange(3)}-{random.choice(('whole', 'left', 'right'))}"
                put(store, {**claim(f"c{step}"), "status": held(driver, pool, name)})
            case 2:
                store.apply(Removed("ResourceClaim", ObjectKey("default", f"c{random.randrange(30)}")))
            case 3:
                store.apply(Removed("ResourceSlice", ObjectKey("", f"{pool}-{driver}-1")))
        await capacity.refresh()
        assert capacity.holdings.devices == plain(store.snapshot())


async def test_partitions_are_not_added_up_where_counters_are():
    """Three devices of 16Gi in all are published of a GPU with 8Gi."""
    store = store_with(partitioned("n", DRIVERS[0], 1))
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    found = capacity.holdings.counters
    assert found == {DRIVERS[0]: {"engines": (3.0, 3.0), "memory": (8.0 * 2**30, 8.0 * 2**30)}}
    put(store, {**claim("c"), "status": held(DRIVERS[0], "n", "gpu0-left")})
    await capacity.refresh()
    told = capacity.holdings.counters
    assert told == {DRIVERS[0]: {"engines": (3.0, 2.0), "memory": (8.0 * 2**30, 4.0 * 2**30)}}
    assert states(capacity) == {"held": 1, "shared": 0, "allocatable": 1, "blocked": 1}


async def test_a_pool_that_is_being_replaced_counts_once():
    old, new = partitioned("n", DRIVERS[0], 2), partitioned("n", DRIVERS[0], 3, generation=2)
    store = store_with(old, new)
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    assert capacity.holdings.counters[DRIVERS[0]]["engines"] == (9.0, 9.0)


async def test_the_number_of_series_is_bounded():
    many = [
        devices("n", *(f"d{k}" for k in range(1 + n % 3)), driver=f"d{n:03}.example.com")
        for n in range(MAX_DRIVERS + 10)
    ]
    odd = partitioned("n", "z.example.com", 1)
    names = {f"c{n:03}": {"value": "1"} for n in range(MAX_COUNTERS + 10)}
    odd["spec"]["sharedCounters"][0]["counters"] |= names
    odd["spec"]["devices"] += [{"name": f"e{n}"} for n in range(5)]
    store = store_with(*many, odd)
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    shown = capacity.holdings
    assert len(shown.devices) == MAX_DRIVERS + 1
    total = sum(sum(states.values()) for states in shown.devices.values())
    assert total == sum(len(one["spec"]["devices"]) for one in [*many, odd])
    assert shown.devices[OTHER]["allocatable"] == 11
    assert len(shown.counters["z.example.com"]) == MAX_COUNTERS


async def test_nothing_is_counted_again_while_nothing_changes():
    store = store_with(partitioned("n", DRIVERS[0], 1))
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    before = capacity.holdings
    await capacity.refresh()
    assert capacity.holdings is before


async def test_nothing_published_is_nothing_counted():
    capacity = Capacity(Store(Semantics()).snapshot)
    await capacity.refresh()
    assert capacity.holdings.devices == {}


async def test_a_device_counts_in_one_state_even_if_it_is_held_alone_and_in_shares():
    """Which the API does not prevent."""
    source = devices("n", "d0", "d1", driver=DRIVERS[0])
    for device in source["spec"]["devices"]:
        device["allowMultipleAllocations"] = True
    shared = held(DRIVERS[0], "n", "d0")
    shared["allocation"]["devices"]["results"][0]["shareID"] = "3f1f4ad9-4a4b-4a2b-9d7b-0f6f7f0f5a51"
    store = store_with(source)
    put(store, {**claim("share"), "status": shared})
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    assert states(capacity) == {"held": 0, "shared": 1, "allocatable": 1, "blocked": 0}
    put(store, {**claim("alone"), "status": held(DRIVERS[0], "n", "d0")})
    await capacity.refresh()
    assert states(capacity) == {"held": 1, "shared": 0, "allocatable": 1, "blocked": 0}


async def test_a_picture_that_is_not_whole_is_not_put_together():
    def snapshot() -> Snapshot:
        raise AssertionError("looked")

    await Capacity(snapshot, ready=lambda: False).refresh()


async def test_tainted_devices_are_counted_as_top_counts_them():
    """A free device that needs a toleration is not allocatable for most claims."""
    store = store_with(
        with_taints("n", {"a": "NoSchedule", "b": "None", "c": "NoExecute"}),
        {**claim("c"), "status": held(DRIVERS[0], "n", "c")},
    )
    capacity = Capacity(store.snapshot)
    await capacity.refresh()
    counted = capacity.holdings.devices[DRIVERS[0]]
    assert counted == {"held": 1, "shared": 0, "allocatable": 2, "tainted": 1, "blocked": 0}
    snapshot = store.snapshot()
    found = measure(fleet_layout(snapshot.topology), snapshot.occupancy, Solver())
    (line,) = lines(found, "driver")
    assert counted == {state: getattr(line, state) for state in STATES}


def with_taints(pool: str, effects: dict[str, str]) -> Object:
    """Devices with one taint each, and one without."""
    made = devices(pool, *effects, "untainted", driver=DRIVERS[0])
    for one in made["spec"]["devices"]:
        if one["name"] in effects:
            one["taints"] = [{"key": "k", "effect": effects[one["name"]]}]
    return made
