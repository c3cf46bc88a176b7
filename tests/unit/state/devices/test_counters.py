"""Counters are exact for all amounts. A pool that breaks a rule is invalid and affects no other."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.quantity import INT64_MAX, NANO, Quantity
from reconciler.api.objects.semantics import GATES, PARTITIONABLE_DEVICES, Semantics
from reconciler.state.devices.pool import Usable
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import Object, counter_slice, device, held, hold, node, resource_slice, snapshot
from tests.tools.store_picture import picture

ON_N: Object = {"nodeName": "n"}
Draws = Mapping[str, Mapping[str, str | int]]

NEIGHBOUR = resource_slice("other", [device("Z")], pool="other", **ON_N)
"""A valid pool."""


def pool(
    sets: Draws, draws: Sequence[Draws], *, name: str = "p", generation: int = 1, **fields: Object
) -> list[Object]:
    """Devices 0, 1, ... and the counters that they draw from."""
    common = {"pool": name, "slices": 2, "generation": generation, **ON_N}
    content = [device(str(number), draws=drawn) for number, drawn in enumerate(draws)]
    return [
        counter_slice(f"{name}-counters", sets, **common),
        resource_slice(f"{name}-devices", content, **common),
    ]


def see(*objects: Object, rules: Semantics | None = None) -> Snapshot:
    return snapshot(node("n"), NEIGHBOUR, *objects, rules=rules)


def left(seen: Snapshot) -> dict[tuple[str, str], Fraction]:
    """(set, counter) -> what is left, as a number."""
    return {
        (set_, counter): Fraction(nanos, NANO)
        for (_, _, set_, counter), nanos in picture(seen)["counters"].items()
    }


def fitting(seen: Snapshot) -> str:
    return " ".join(place.device for place, d in picture(seen)["devices"].items() if d["fits"])


def problem(seen: Snapshot, name: str = "p") -> str:
    """Why a pool is invalid; its neighbour must not be."""
    pools = {p.pool.pool: p for p in seen.topology.view("n").pools}
    assert pools["other"].usable is Usable.YES
    assert (pools[name].usable is Usable.INVALID) == bool(pools[name].problem)
    return pools[name].problem


# -- exact amounts


@pytest.mark.parametrize(
    ("total", "draws"),
    [
        pytest.param(str(2**62), ["1n"], id="one unit for both needs 92 bits"),
        pytest.param(f"{INT64_MAX}n", ["1n"], id="the sum of all draws leaves int64 by one"),
        pytest.param("8Ei", ["1", "3"], id="a total that is capped to the largest, which is odd"),
        pytest.param("0", [f"{INT64_MAX}n", "1n"], id="the draws alone are too much"),
    ],
)
def test_amounts_that_cannot_be_added_exactly_make_their_pool_invalid(total: str, draws: list[str]):
    seen = see(*pool({"g": {"m": total}}, [{"g": {"m": drawn}} for drawn in draws]))
    assert problem(seen) == "counter set g: the amounts of counter m are too far apart to be added exactly"


@pytest.mark.parametrize(
    ("total", "draws"),
    [
        pytest.param(f"{INT64_MAX - 1}n", ["1n"], id="up to the largest number"),
        pytest.param(str(2**62), ["1", "2"], id="large but coarse"),
        pytest.param("0", [f"{INT64_MAX - 1}n", "1n"], id="nothing published, much drawn"),
        pytest.param("4Ei", ["1Ei"] * 40, id="more drawn than there is"),
    ],
)
def test_amounts_that_can_be_added_exactly_are_held_exactly(total: str, draws: list[str]):
    everything = [hold(str(number)) for number in range(len(draws))]
    seen = see(*pool({"g": {"m": total}}, [{"g": {"m": drawn}} for drawn in draws]), held("c", *everything))
    assert problem(seen) == ""
    amounts = [Quantity.parse(drawn).nanos for drawn in draws]
    assert left(seen) == {("g", "m"): Fraction(Quantity.parse(total).nanos - sum(amounts), NANO)}


AMOUNTS = st.sampled_from(["0", "1n", "3m", "1", "7", "1Gi", "0.5Gi", "100u"])


@given(total=AMOUNTS, draws=st.lists(AMOUNTS, min_size=1, max_size=4), taken=st.sets(st.integers(0, 3)))
def test_what_is_left_is_the_plain_difference(total: str, draws: list[str], taken: set[int]):
    """A device fits if its draw is no more than that and nothing is over-committed."""
    taken &= set(range(len(draws)))
    seen = see(
        *pool({"g": {"m": total}}, [{"g": {"m": drawn}} for drawn in draws]),
        held("c", *(hold(str(number)) for number in sorted(taken))),
    )
    amounts = [Quantity.parse(drawn).nanos for drawn in draws]
    rest = Quantity.parse(total).nanos - sum(amounts[number] for number in taken)
    assert left(seen) == {("g", "m"): Fraction(rest, NANO)}
    fine = [str(n) for n, amount in enumerate(amounts) if rest >= 0 and (amount <= rest or amount == 0)]
    assert fitting(seen) == " ".join(["Z", *fine])


# -- what makes a pool invalid (POOL-11)


@pytest.mark.parametrize(
    ("sets", "draws", "reason"),
    [
        pytest.param(
            {"g": {"m": 1}},
            {"h": {"m": 1}},
            "slice p-devices: a device draws from counter set h, which the pool does not have",
            id="a set that is not there",
        ),
        pytest.param(
            {"g": {"m": 1}},
            {"g": {"k": 1}},
            "slice p-devices: a device draws counter k, which counter set g does not have",
            id="a counter that is not there",
        ),
        pytest.param(
            {"g": {"m": 1}},
            {"g": {"m": -1}},
            "slice p-devices: a device draws a negative amount of counter m from set g",
            id="less than nothing",
        ),
        pytest.param(
            {"g": {f"c{n}": 1 for n in range(129)}},
            {},
            "counter set g: more than 128 counters",
            id="too many counters",
        ),
        pytest.param(
            {f"g{n}": {"m": 1} for n in range(9)},
            {f"g{n}": {"m": 1} for n in range(9)},
            "a device draws from more than 8 counter sets",
            id="too many sets",
        ),
    ],
)
def test_a_pool_with_broken_counters_is_invalid_alone(sets: Draws, draws: Draws, reason: str):
    seen = see(*pool(sets, [{}, draws]))
    assert problem(seen) == reason
    assert left(see()) == {}


def test_the_first_problem_in_device_order_is_reported():
    """Even if another pool published the names of the sets in another order."""
    before = pool({"h": {"m": 1}, "a": {"m": 1}}, [{"h": {"m": 1}}, {"a": {"m": 1}}], name="o")
    seen = see(*before, *pool({"g": {"m": 1}}, [{"a": {"m": 1}}, {"h": {"m": 1}}]))
    assert "counter set a" in problem(seen)


@pytest.mark.parametrize("apart", [False, True], ids=["in one slice", "in two slices"])
def test_two_sets_of_one_name_make_a_pool_invalid(apart: bool):
    sets = counter_slice("t", {"g": {"m": 1}}, slices=2 if apart else 1, **ON_N)
    twin: Object = {**sets, "metadata": {"name": "u"}}
    if not apart:
        sets["spec"]["sharedCounters"] *= 2
    assert problem(see(sets, *([twin] if apart else []))) == "two counter sets are named g"


def test_another_generation_may_be_broken():
    """Its slices are for another node, so this node uses the older, complete ones."""
    old = pool({"g": {"m": 4}}, [{"g": {"m": 1}}])
    broken = pool({"g": {"m": 4}}, [{"nowhere": {"m": 1}}], generation=2)
    for raw in broken:
        raw["metadata"]["name"] += "-2"
        raw["spec"]["nodeName"] = "m"
    seen = snapshot(node("n"), node("m"), NEIGHBOUR, *old, *broken)
    assert problem(seen) == ""
    (pool_there,) = seen.topology.view("m").pools
    assert pool_there.usable is Usable.INVALID


def test_a_dangling_draw_of_another_nodes_device_invalidates_the_pool():
    """POOL-11: devices of other nodes are checked too."""
    seen = snapshot(
        node("n"),
        node("m"),
        NEIGHBOUR,
        counter_slice("t", {"g": {"m": 1}}, slices=3, **ON_N),
        resource_slice("s", [device("A", draws={"g": {"m": 1}})], slices=3, **ON_N),
        resource_slice("u", [device("B", draws={"h": {"m": 1}})], slices=3, nodeName="m"),
    )
    assert "counter set h" in problem(seen)


def test_without_the_gate_counters_are_ignored():
    rules = Semantics(gates=frozenset(GATES) - {PARTITIONABLE_DEVICES})
    broken = resource_slice("s", [device("A", draws={"h": {"m": 1}})], **ON_N)
    assert problem(see(broken, rules=rules)) == ""


# -- odd, but allowed


def test_a_negative_total_blocks_devices_that_draw():
    """POOL-12: this is no error. CTR-6: no device of the pool that draws can be allocated."""
    seen = see(*pool({"g": {"m": -1}, "h": {"k": 1}}, [{"h": {"k": 1}}, {"g": {"m": 0}}, {}]))
    assert problem(seen) == ""
    assert fitting(seen) == "Z 2"


def test_devices_and_counters_in_one_slice():
    both = counter_slice("t", {"g": {"m": 30}}, **ON_N)
    both["spec"]["devices"] = [device("A", draws={"g": {"m": 20}})]
    seen = see(both, held("c", hold("A")))
    assert problem(seen) == ""
    assert left(seen) == {("g", "m"): 10}
