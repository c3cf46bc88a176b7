"""What `least-loss` counts for groups of devices and for shares, against sums over the demand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    devices,
    node,
    request,
    resource_slice,
    store,
    typed,
)
from tests.tools.examples import examples

HEAVIEST = 16
"""Weights are scaled to a power of two, and compared exactly only if the heaviest is one"""
COUNT = st.integers(1, 4)
SHARE = st.sampled_from((250, 400, 500, 1000))


def _asks(name: str, **fields: object) -> ResourceClaim:
    made = typed(claim(name, request("r", **fields)))  # type: ignore[arg-type]
    assert isinstance(made, ResourceClaim)
    return made


def _policy(values: list[tuple[ResourceClaim, int]]) -> LeastLoss:
    return LeastLoss(Demand(tuple(Shape(one.spec, 0, 1, value) for one, value in values)))


def _demands(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    """(what a shape asks for, its value): sizes may occur twice."""
    heaviest = st.tuples(sizes, st.just(HEAVIEST))
    return st.tuples(heaviest, st.lists(st.tuples(sizes, st.integers(1, HEAVIEST)), max_size=3)).map(
        lambda both: [both[0], *both[1]]
    )


@examples(25)
@given(
    demand=_demands(COUNT),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    taken=st.lists(COUNT, min_size=1, max_size=6),
)
def test_groups_lose_what_floors_of_free_devices_lose(
    demand: list[tuple[int, int]], sizes: list[int], taken: list[int]
):
    free = {f"n{at}": size for at, size in enumerate(sizes)}
    fleet: list[Object] = [device_class()]
    for name, size in free.items():
        names = [f"d{at}" for at in range(size)]
        fleet += [node(name), resource_slice(name, devices(*names), pool=name, nodeName=name)]
    world = store(*fleet)
    policy = _policy([(_asks("s", count=count), value) for count, value in demand])
    for number, count in enumerate(taken):
        fitting = [name for name, left in free.items() if left >= count]
        found = allocate([_asks(f"c{number}", count=count)], world.snapshot(), policy=policy)
        assert isinstance(found, Granted) == bool(fitting)
        if isinstance(found, Granted):

            def loss(name: str, count: int = count) -> int:
                return sum(
                    value * (free[name] // size - (free[name] - count) // size) for size, value in demand
                )

            assert found.node == min(fitting, key=loss)
            free[found.node] -= count
            world.assume(found.plans[0])
        # As another thread does that reads a new slice.
        world.snapshot().fleet.vocabulary.nodes.code(f"later-{number}")


@examples(25)
@given(demand=_demands(SHARE), gpus=st.integers(1, 4), taken=st.lists(SHARE, min_size=1, max_size=8))
def test_shares_lose_what_fits_a_device_no_longer(demand: list[tuple[int, int]], gpus: int, taken: list[int]):
    shared = [device(f"d{at}", None, {"milli": "1000"}, allowMultipleAllocations=True) for at in range(gpus)]
    world = store(node("n"), resource_slice("s", shared, nodeName="n"), device_class())
    free = np.full(gpus, 1000)
    policy = _policy([(_asks("s", capacity={"milli": str(share)}), value) for share, value in demand])
    for number, share in enumerate(taken):
        one = _asks(f"c{number}", capacity={"milli": str(share)})
        found = allocate([one], world.snapshot(), policy=policy)
        fitting = [at for at in range(gpus) if free[at] >= share]
        assert isinstance(found, Granted) == bool(fitting)
        if isinstance(found, Granted):
            losses = [
                sum(value for size, value in demand if free[at] - share < size <= free[at]) for at in fitting
            ]
            expected = fitting[losses.index(min(losses))]
            assert found.plans[0].allocation.devices.results[0].device == f"d{expected}"
            free[expected] -= share
            world.assume(found.plans[0])
