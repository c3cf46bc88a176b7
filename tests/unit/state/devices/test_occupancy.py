"""Holds as columns: CTR-1 to CTR-6, shares, and devices that moved."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import NANO
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices import occupancy_columns
from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.exclusion_rules import Conflict, scopes_apart
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    held,
    hold,
    node,
    resource_slice,
    snapshot,
    store,
)
from tests.tools.builders import typed as typed_object
from tests.tools.pool_fitting import ON_N, TWO, fitting, left
from tests.tools.store_picture import picture

SHARED: Object = {"allowMultipleAllocations": True}


def mig(*, name: str = "p", driver: str = "d", second: bool = False) -> list[Object]:
    """One set of 40: full takes 40, a and b 20, c 30; z draws nothing, x draws from another set."""
    common = {"pool": name, "driver": driver, **TWO, **ON_N}
    sets = {"g": {"m": 40}, "h": {"k": 1}}
    content = [
        device("full", draws={"g": {"m": 40}}),
        device("a", draws={"g": {"m": 20}}),
        device("b", draws={"g": {"m": 20}}),
        device("c", draws={"g": {"m": 30}}),
        device("x", draws={"h": {"k": 1}}),
        device("z"),
        device("zero", draws={"g": {"m": 0}}),
    ]
    suffix = "-2" if second else ""
    return [
        counter_slice(f"{driver}-{name}-t{suffix}", sets, **common),
        resource_slice(f"{driver}-{name}-s{suffix}", content, **common),
    ]


def state(seen: Snapshot, name: str) -> tuple[bool, bool, dict[str, int]]:
    """Held, shared, and what the shares consume in whole units."""
    (found,) = (d for place, d in picture(seen)["devices"].items() if place.device == name)
    return found["held"], found["sharing"], {key: nanos // NANO for key, nanos in found["consumed"].items()}


@pytest.mark.parametrize(
    ("taken", "fits"),
    [
        pytest.param([], "full a b c x z zero", id="nothing"),
        pytest.param(["a"], "a b x z zero", id="a: 20 left"),
        pytest.param(["c"], "x z zero", id="c: 10 left"),
        pytest.param(["full"], "x z zero", id="full: nothing left"),
        pytest.param(["a", "b"], "x z zero", id="a and b: nothing left"),
        pytest.param(["x"], "full a b c z zero", id="x: of another set"),
        pytest.param(["z"], "full a b c x z zero", id="z: draws nothing"),
        pytest.param(["a", "c"], "z", id="too much: all who draw are blocked (CTR-6)"),
    ],
)
def test_which_devices_fit_after_others_are_taken(taken: list[str], fits: str):
    """CTR-5 for each device, whether it is held or not."""
    seen = snapshot(node("n"), *mig(), held("c", *map(hold, taken)))
    assert fitting(seen) == fits


def test_over_commitment_blocks_its_own_pool_only():
    """CTR-1: two drivers may use one name for a pool."""
    seen = snapshot(node("n"), *mig(), *mig(driver="e"), *mig(name="q"), held("c", hold("a"), hold("c")))
    assert fitting(seen) == "z"
    assert fitting(seen, ("e", "p")) == fitting(seen, ("d", "q")) == "full a b c x z zero"
    assert left(seen)["d/p/m"] == -10


def test_devices_of_slices_for_other_nodes_are_charged():
    """CTR-2: slices of the pool for other nodes."""
    common: Object = {"slices": 3}
    seen = snapshot(
        node("n"),
        counter_slice("t", {"g": {"m": 40}}, allNodes=True, **common),
        resource_slice("s", [device("A", draws={"g": {"m": 30}})], **ON_N, **common),
        resource_slice("u", [device("B", draws={"g": {"m": 30}})], nodeName="m", **common),
        held("c", hold("B")),
    )
    assert left(seen) == {"d/p/m": 10}
    assert fitting(seen) == ""


def test_administrative_access_draws_nothing():
    """CTR-4."""
    seen = snapshot(node("n"), *mig(), held("c", hold("full", adminAccess=True)))
    assert left(seen)["d/p/m"] == 40


def test_shares_are_charged_once_and_consume_each():
    """CTR-2, CTR-9: however many there are."""
    common = {**TWO, **ON_N}
    published = [
        counter_slice("t", {"g": {"m": 40}}, **common),
        resource_slice("s", [device("A", {}, {"mem": "10"}, {"g": {"m": 30}}, **SHARED)], **common),
    ]
    picture_of = store(node("n"), *published)
    for number in (1, 2, 3):
        share = hold("A", shareID=f"share-{number}", consumedCapacity={"mem": "2"})
        picture_of.apply(Changed("ResourceClaim", typed_object(held(f"c{number}", share))))
        assert state(picture_of.snapshot(), "A") == (False, True, {"mem": 2 * number})
        assert left(picture_of.snapshot()) == {"d/p/m": 10}
    for number in (3, 1):
        picture_of.apply(Removed("ResourceClaim", ObjectKey("default", f"c{number}")))
    assert left(picture_of.snapshot()) == {"d/p/m": 10}
    picture_of.apply(Removed("ResourceClaim", ObjectKey("default", "c2")))
    assert state(picture_of.snapshot(), "A") == (False, False, {})
    assert left(picture_of.snapshot()) == {"d/p/m": 40}


def test_a_device_held_exclusively_and_in_shares_is_charged_once():
    seen = snapshot(
        node("n"), *mig(), held("c1", hold("a")), held("c2", hold("a", shareID="s")), held("c3", hold("a"))
    )
    assert left(seen)["d/p/m"] == 20
    assert state(seen, "a") == (True, True, {})


def test_a_long_series_of_changes_can_be_undone(monkeypatch: pytest.MonkeyPatch):
    """Also with more changes than the trail keeps."""
    monkeypatch.setattr(occupancy_columns, "LONGEST_TRAIL", 3)
    picture_of, before = store(node("n"), *mig()), None
    for turn in range(12):
        seen = picture_of.snapshot()
        assert fitting(seen) == ("a b x z zero" if turn % 2 else "full a b c x z zero")
        if before is not None:
            assert fitting(before) == ("full a b c x z zero" if turn % 2 else "a b x z zero")
        before = seen
        change = claim("c") if turn % 2 else held("c", hold("a"))
        picture_of.apply(Changed("ResourceClaim", typed_object(change)))


def test_distinct_amounts_that_shares_consumed_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    """Their table stays bounded, and an older snapshot keeps its own."""
    monkeypatch.setattr(occupancy_columns, "MOST_CONSUMPTIONS", 2)
    shared = device("A", capacity={"mem": "100"}, **SHARED)
    world = store(node("n"), resource_slice("s", [shared], **ON_N))
    seen = {}
    for amount in range(1, 9):
        share = hold("A", shareID="share", consumedCapacity={"mem": str(amount)})
        world.apply(Changed("ResourceClaim", typed_object(held("c", share))))
        seen[amount] = world.snapshot()
        assert len(seen[amount].occupancy.consumptions.values) <= 4
    for amount, then in seen.items():
        number = then.occupancy.consumption[0]
        assert then.occupancy.consumptions.values[number] == {"mem": amount * NANO}


def test_arrays_of_snapshots_are_read_only():
    seen = snapshot(node("n"), *mig())
    fleet, now = seen.fleet, seen.occupancy
    arrays = [
        now.held, now.sharing, now.left, now.fits,
        now.free, fleet.sets, fleet.draws, fleet.table,
        fleet.totals,
    ]  # fmt: skip
    arrays += [fleet.anywhere, fleet.shared, fleet.binds, fleet.pool_of, *fleet.codes.values()]
    arrays += [column.codes for column in fleet.cel.attributes.values()]
    assert [array.flags.writeable for array in arrays] == [False] * len(arrays)


def test_a_snapshot_is_the_same_until_something_changes():
    picture_of = store(node("n"), *mig(), claim("c"))
    seen = picture_of.snapshot()
    assert picture_of.snapshot() is seen
    picture_of.apply(Changed("ResourceClaim", typed_object(claim("c"))))
    picture_of.apply(Changed("ResourceSlice", typed_object(mig()[1])))
    picture_of.apply(Changed("Node", typed_object(node("n"))))
    assert picture_of.snapshot() is seen
    picture_of.apply(Changed("ResourceClaim", typed_object(held("c", hold("a")))))
    assert picture_of.snapshot().version > seen.version


def test_a_node_sees_an_empty_fleet():
    seen = Store(Semantics()).snapshot()
    assert (seen.fleet.size, picture(seen)["nodes"]) == (0, {})
    assert list(islice(snapshot(node("n")).topology.view("n").rows, 1)) == []


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


CHANGES = st.lists(st.tuples(st.lists(st.integers(0, 99), max_size=6), st.booleans()), max_size=12)


@given(CHANGES, st.data())
def test_every_part_of_a_trail_has_the_rows_of_its_changes(
    changes: list[tuple[list[int], bool]], data: st.DataObject
):
    trail, expected = Trail(), list[list[int]]()
    for rows, as_list in changes:
        trail.add(rows if as_list else np.array(rows, dtype=np.intp))
        expected.append(rows)
        later = data.draw(st.integers(0, len(expected)))
        serial = data.draw(st.integers(0, later))
        part = [row for one in expected[serial:later] for row in one]
        assert trail.between(serial, later).tolist() == part
        assert trail.few_between(serial, later, len(part)) == part
        assert trail.few_between(serial, later, len(part) - 1) is None
    assert len(trail) == len(expected)


def test_what_a_reader_of_a_trail_has_seen_stays():
    """A reader in another thread may still use an answer while more is added."""
    trail = Trail()
    trail.add(np.array([1, 2]))
    trail.add([3])
    stored, recent = trail.between(0, 1), trail.between(0, 2)
    for number in range(1000):
        trail.add([number])
    assert (stored.tolist(), recent.tolist()) == ([1, 2], [1, 2, 3])
