"""Devices of several types near each other."""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plugins.koordinator.decision import Place, spread
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.vocabulary import Semantics
from tests.tools import koordinator_builders
from tests.tools.examples import examples
from tests.tools.koordinator_builders import UPSTREAM, gpu, holding, machine, nic, pod
from tests.tools.koordinator_builders import given as given_devices

BOTH = {"deviceTypes": ["gpu", "rdma"]}
SAME_PCIE = {**BOTH, "requiredScope": "SamePCIe"}


def test_without_topology_devices_are_given_but_never_on_one_switch():
    bare = machine(gpu(0), nic(0))
    assert given_devices(pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=BOTH), bare) == {"gpu": [0], "rdma": [0]}
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=SAME_PCIE)
    assert given_devices(wants, bare) == "joint-scope-violation"
    assert given_devices(wants, bare, semantics=UPSTREAM) == {"gpu": [0], "rdma": [0]}


def test_switches_give_in_turn():
    spots = [(0, "0"), (0, "1")]
    on = machine(*map(gpu, range(2), spots), *(nic(i, spots[i // 3]) for i in range(6)))
    assert given_devices(pod({"nvidia.com/gpu": 2, "rdma": 400}, joint=BOTH), on)["rdma"] == [0, 1, 3, 4]


def test_three_types_are_beside_each_other():
    spots = [(0, "0"), (0, "1")]
    fpga = {"type": "fpga", "minor": 0, "health": True, "resources": {"koordinator.sh/fpga": "100"}}
    place = {"nodeID": 0, "pcieID": "1", "socketID": 0}
    on = machine(
        *(gpu(i, spot) for i, spot in enumerate(spots)),
        *(nic(i, spot) for i, spot in enumerate(spots)),
        {**fpga, "topology": place},
    )
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1, "fpga": 100}, joint={"deviceTypes": ["gpu", "rdma", "fpga"]})
    assert given_devices(wants, on) == {"gpu": [1], "rdma": [1], "fpga": [0]}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("why", "joint", "hint"),
    [
        ("one type alone is no company", {"deviceTypes": ["gpu"]}, None),
        ("a type of which none is requested", {"deviceTypes": ["gpu", "fpga"]}, None),
        ("all NICs are taken anyway", SAME_PCIE, {"rdma": {"allocateStrategy": "ApplyForAll"}}),
        ("null", None, {"rdma": None}),
    ],
)
def test_types_that_are_not_joint_are_chosen_alone(semantics: Semantics, why: str, joint: Any, hint: Any):
    on = machine(gpu(0, (0, "0")), nic(0, (1, "1")), semantics=semantics)
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=joint, hint=hint)
    assert given_devices(wants, on, semantics=semantics) == {"gpu": [0], "rdma": [0]}


SPOTS = st.tuples(st.integers(0, 1), st.integers(0, 1)).map(lambda spot: (spot[0], f"{spot[0]}.{spot[1]}"))
SAME = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Machine, list[int], list[int], int, int]:
    """A machine, its free GPUs and NICs, and how many of each are wanted."""
    gpus = draw(st.lists(SPOTS, min_size=1, max_size=6))
    nics = draw(st.lists(SPOTS, min_size=1, max_size=5))
    on = machine(
        *(gpu(i, spot) for i, spot in enumerate(gpus)), *(nic(i, spot) for i, spot in enumerate(nics))
    )
    used_gpus = draw(st.sets(st.integers(0, len(gpus) - 1), max_size=2))
    used_nics = draw(st.sets(st.integers(0, len(nics) - 1), max_size=2))
    free_gpus = [i for i in range(len(gpus)) if i not in used_gpus]
    free_nics = [i for i in range(len(nics)) if i not in used_nics]
    return on, free_gpus, free_nics, draw(st.integers(1, 4)), draw(st.integers(1, 4))


def spots(on: Machine, kind: str, minors: Any, near: int) -> set[Any]:
    """Switches, NUMA nodes, or the machine."""
    if near == 0:
        return {on.pcie(kind, minor) for minor in minors}
    return {on.numa(kind, minor) if near == 1 else "machine" for minor in minors}


def reachable(
    on: Machine, free_gpus: list[int], free_nics: list[int], count: int, asked: int
) -> Iterator[int]:
    """How near some choice of GPUs could have its NICs."""
    for chosen in combinations(free_gpus, count):
        for near in range(3):
            here = spots(on, "gpu", chosen, near)
            nics = [n for n in free_nics if spots(on, "rdma", [n], near) <= here]
            if len(nics) >= asked and spots(on, "rdma", nics, near) == here:
                yield near
                break


def wants(count: int, asked: int, joint: Any) -> Any:
    return pod({"nvidia.com/gpu": count, "rdma": 100 * asked}, joint=joint)


def taken(on: Machine, gpus: list[int], nics: list[int]) -> Any:
    used_gpus = [minor for minor in on.devices["gpu"] if minor not in gpus]
    used_nics = [minor for minor in on.devices["rdma"] if minor not in nics]
    return holding(gpus=used_gpus, nics=used_nics)


@examples(70)
@given(cases())
def test_one_switch_is_found_where_it_exists(case: tuple[Machine, list[int], list[int], int, int]):
    on, gpus, nics, count, asked = case
    found = koordinator_builders.given(wants(count, asked, SAME), on, taken(on, gpus, nics))
    if 0 not in reachable(on, gpus, nics, count, asked):
        assert isinstance(found, str)
        return
    assert len(found["gpu"]) == count
    assert set(found["gpu"]) <= set(gpus)
    assert set(found["rdma"]) <= set(nics)
    switches = spots(on, "gpu", found["gpu"], 0)
    assert spots(on, "rdma", found["rdma"], 0) == switches
    assert len(set(found["rdma"])) == len(found["rdma"]) == max(asked, len(switches))


@examples(70)
@given(cases())
def test_nothing_is_farther_than_it_must_be(case: tuple[Machine, list[int], list[int], int, int]):
    on, gpus, nics, count, asked = case
    found = koordinator_builders.given(wants(count, asked, BOTH), on, taken(on, gpus, nics))
    possible = len(gpus) >= count and len(nics) >= asked
    assert isinstance(found, str) != possible
    if not possible:
        return
    near = min(reachable(on, gpus, nics, count, asked))
    assert len(found["rdma"]) >= asked
    assert spots(on, "rdma", found["rdma"], near) <= spots(on, "gpu", found["gpu"], near)
    # Each GPU has something of the nearest group that holds anything free.
    for one in found["gpu"]:
        for level in range(3):
            group = {n for n in nics if spots(on, "rdma", [n], level) == spots(on, "gpu", [one], level)}
            if group:
                assert group & set(found["rdma"])
                break


def exhaustive(places: list[Place], need: int, wanted: tuple[int, ...]) -> list[int] | None:
    """The first of all ways, when earlier places give as much as they can."""
    for counts in product(*(range(place.things, -1, -1) for place in places)):
        used = [place for place, count in zip(places, counts, strict=True) if count]
        if sum(counts) != need or not all(all(place.beside) for place in used):
            continue
        if all(sum(place.beside[k] for place in used) >= least for k, least in enumerate(wanted)):
            return list(counts)
    return None


@given(st.data())
def test_it_finds_the_first_way_there_is(data: st.DataObject):
    kinds = data.draw(st.integers(0, 2))
    small = st.lists(st.integers(0, 3), min_size=kinds, max_size=kinds).map(tuple)
    places = data.draw(st.lists(st.builds(Place, st.integers(0, 3), small), max_size=5))
    need = data.draw(st.integers(1, 6))
    wanted = tuple(data.draw(small))
    assert spread(places, need, wanted) == exhaustive(places, need, wanted)


def test_many_places_that_lead_nowhere_are_no_trap():
    places = [Place(1, (1,))] * 2000
    assert spread(places, 5, (6,)) is None
    assert spread([*places, Place(1, (2,))], 5, (6,)) == [*([1] * 4), *([0] * 1996), 1]
