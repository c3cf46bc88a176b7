"""Joint allocation against trying everything: what can be had is had, and nothing nearer was possible."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.plugins.koordinator.machine import Machine
from tests.tools import koordinator_builders
from tests.tools.examples import examples
from tests.tools.koordinator_builders import gpu, holding, machine, nic, pod

SPOTS = st.tuples(st.integers(0, 1), st.integers(0, 1)).map(lambda spot: (spot[0], f"{spot[0]}.{spot[1]}"))
SAME = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
BOTH = {"deviceTypes": ["gpu", "rdma"]}


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
