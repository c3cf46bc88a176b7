"""CTR-3: held devices whose slices changed or were deleted are charged what they drew while they are held."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Removed
from reconciler.api.objects.meta import ObjectKey, PoolID
from reconciler.state.devices.occupancy import LostCounters
from reconciler.state.store import Store
from reconciler.state.trial import load
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    held,
    hold,
    node,
    resource_slice,
    store,
    typed,
)
from tests.tools.pool_fitting import ON_N, TWO, fitting, left
from tests.tools.store_picture import picture

Draws = dict[str, dict[str, int]]


def published(devices: dict[str, Draws], sets: Draws | None = None, generation: int = 1) -> list[Object]:
    """A pool with one set of 40, or with other sets."""
    common: dict[str, Any] = {**TWO, **ON_N, "generation": generation}
    return [
        counter_slice("t", sets if sets is not None else {"g": {"m": 40}}, **common),
        resource_slice("s", [device(name, draws=draws) for name, draws in devices.items()], **common),
    ]


def change(picture_of: Store, *objects: Object) -> None:
    load(picture_of, map(typed, objects))


def m(amount: int) -> Draws:
    return {"g": {"m": amount}}


@pytest.mark.parametrize(
    ("now", "charged"),
    [
        pytest.param({}, 20, id="it vanished"),
        pytest.param({"a": m(5)}, 20, id="it shrank"),
        pytest.param({"a": m(30)}, 30, id="it grew: the larger counts"),
        pytest.param({"a": {}}, 20, id="it draws nothing any more"),
        pytest.param({"a": m(20), "z": m(3)}, 20, id="others changed"),
    ],
)
def test_a_held_device_is_charged_what_it_drew(now: dict[str, Draws], charged: int):
    picture_of = store(node("n"), *published({"a": m(20), "b": m(40)}), held("c", hold("a")))
    change(picture_of, *published({**now, "b": m(40)})[1:])
    assert left(picture_of.snapshot())["d/p/m"] == 40 - charged
    assert "b" not in fitting(picture_of.snapshot())
    picture_of.apply(Removed("ResourceClaim", ObjectKey("default", "c")))
    assert left(picture_of.snapshot())["d/p/m"] == 40
    assert "b" in fitting(picture_of.snapshot())


def test_amounts_below_the_published_unit_are_charged_exactly():
    devices = {name: m(5) for name in "wxyz"}
    picture_of = store(node("n"), *published(devices), held("c", *map(hold, "wxyz")))
    change(picture_of, *published({"b": m(20)}))
    assert left(picture_of.snapshot())["d/p/m"] == 20
    assert fitting(picture_of.snapshot()) == "b"


def test_lost_counters_are_reported():
    picture_of = store(
        node("n"), *published({"a": {"g": {"m": 20}, "h": {"k": 1}}}, {"g": {"m": 40}, "h": {"k": 1}})
    )
    change(picture_of, held("c", hold("a")), *published({}, {"g": {"m": 40}}))
    (overcharge,) = [picture_of.snapshot().occupancy.overcharges[PoolID("d", "p")]]
    assert overcharge.lost == (LostCounters("a", "h", ("k",)),)
    assert left(picture_of.snapshot()) == {"d/p/m": 20}
    change(picture_of, claim("c"))
    assert picture_of.snapshot().occupancy.overcharges == {}


def test_draws_of_incomplete_generations_are_not_retained():
    """Nothing was ever allocated from an incomplete generation."""
    picture_of = store(node("n"), *published({"a": m(20)}))
    common: dict[str, Any] = {**ON_N, "generation": 2, "slices": 3}
    change(picture_of, resource_slice("s2", [device("a", draws=m(40))], **common))
    change(picture_of, held("c", hold("a")))
    change(picture_of, counter_slice("t2", m(40), **common))
    picture_of.apply(Removed("ResourceSlice", ObjectKey("", "s2")))
    counters = picture(picture_of.snapshot())["counters"]
    assert {key[1]: nanos // 10**9 for key, nanos in counters.items()} == {1: 20, 2: 20}


def test_an_overcharge_beyond_64_bits_is_over_committed():
    huge = 2**62
    picture_of = store(node("n"), *published({"a": m(huge)}, m(huge)), held("c", hold("a")))
    change(picture_of, *published({"b": {"g": {"m": 1}}}, m(1)))
    assert left(picture_of.snapshot())["d/p/m"] < 0
    assert fitting(picture_of.snapshot()) == ""


def test_a_restarted_process_charges_the_current_slices():
    """Only the process knows the retained draws; the server no longer has them."""
    seen = store(node("n"), *published({"b": m(40)}), held("c", hold("a"))).snapshot()
    assert left(seen)["d/p/m"] == 40


def test_an_invalid_pool_charges_nothing():
    broken = {"z": {"gone": {"m": 1}}}  # draws from a set that the pool does not have
    picture_of = store(node("n"), *published({"a": m(20), **broken}), held("c", hold("a")))
    assert left(picture_of.snapshot())["d/p/m"] == 40
    change(picture_of, *published({"a": m(5), **broken})[1:])
    assert left(picture_of.snapshot())["d/p/m"] == 40
    change(picture_of, *published({"a": m(5)})[1:])
    assert left(picture_of.snapshot())["d/p/m"] == 20
