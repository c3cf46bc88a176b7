"""A policy orders candidates and nothing else: it never turns a yes into a no, and breaks no rule."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.expected_fill import ExpectedFill
from reconciler.allocation.policies.fragmentation import Fgd
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import BEST_FIT, SPREAD, PodPreferences, PodRoom, Policy
from reconciler.api.objects.plan import Granted, Unsatisfied
from tests.tools.allocation_checker import problems
from tests.tools.allocation_strategies import contests, worlds
from tests.tools.allocation_world import World, decide, numbered
from tests.tools.examples import examples

POLICIES = ("best-fit", "spread", "least-loss", "least-loss without demand", "fgd", "expected-fill")


def with_demand(name: str, world: World) -> Policy:
    """A policy by name; its demand are the claims of the world, the last one most frequent."""
    demand = Demand(tuple(Shape(one.spec, 0, at + 1) for at, one in enumerate(world.wanted())))
    policies: dict[str, Callable[[], Policy]] = {
        "best-fit": lambda: BEST_FIT,
        "spread": lambda: SPREAD,
        "least-loss": lambda: LeastLoss(demand, guarded=True),
        "least-loss without demand": LeastLoss,
        "fgd": lambda: Fgd(demand),
        "expected-fill": lambda: ExpectedFill(demand),
    }
    return policies[name]()


def rank_of(granted: Granted, world: World) -> int:
    """The sum of the positions of the chosen alternatives in their lists."""
    total = 0
    for plan, claim in zip(granted.plans, world.wanted(), strict=True):
        chosen = {result.request for result in plan.allocation.devices.results}
        for request in claim.spec.devices.requests:
            names = [f"{request.name}/{one.name}" for one in request.first_available or ()]
            total += next((at for at, name in enumerate(names) if name in chosen), 0)
    return total


STEPS = (3, 100_000)
"""The search gives up early, or never"""


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("steps", STEPS)
@examples(20)
@given(world=st.one_of(worlds(), contests()))
def test_a_policy_never_turns_a_yes_into_a_no(name: str, steps: int, world: World):
    """And a no stays the same no, an error the same error, a better alternative the better one."""
    plain = decide(world, steps=steps)
    policy = with_demand(name, world)
    found = numbered(allocate, world.wanted(), world.snapshot(), steps=steps, policy=policy)
    if isinstance(plain, Granted):
        assert isinstance(found, Granted)
        assert problems(world, found.plans) == []
        assert rank_of(found, world) <= rank_of(plain, world)
    elif isinstance(found, Unsatisfied):
        assert (found.reason, found.message, found.counts) == (plain.reason, plain.message, plain.counts)
    else:
        assert steps == STEPS[0]  # another order needs fewer steps
        assert problems(world, found.plans) == []


class Points(PodPreferences, frozen=True, eq=False, kw_only=True):
    """Preferences as they are given, node by node."""

    given: tuple[int, ...]

    def points(self, among: Mask) -> Amounts:
        return np.array(self.given[: len(among)], dtype=np.int64)


POINTS = st.builds(
    Points, given=st.tuples(*[st.integers(0, 2)] * 8), first=st.booleans(), with_first_fit=st.just(value=True)
)


@pytest.mark.parametrize("name", [None, "best-fit"])
@examples(40)
@given(world=st.one_of(worlds(), contests()), points=POINTS)
def test_preferences_of_pods_never_turn_a_yes_into_a_no(name: str | None, world: World, points: Points):
    """Nor do they give up a better alternative."""
    plain, policy = decide(world, steps=100_000), None if name is None else with_demand(name, world)
    pod = PodRoom(0, np.zeros(8, dtype=np.int64), points)
    found = numbered(allocate, world.wanted(), world.snapshot(), policy=policy, pod=pod)
    if isinstance(plain, Granted):
        assert isinstance(found, Granted)
        assert problems(world, found.plans) == []
        assert rank_of(found, world) <= rank_of(plain, world)
    else:
        assert isinstance(found, Unsatisfied)
