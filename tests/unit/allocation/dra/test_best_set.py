"""The set of devices that a policy chooses, against trying all sets."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.best_set import TRIES, WIDTH, BestSet
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.dra.companions import Reach
from reconciler.allocation.dra.node_attempt import NodeGrant, attempt
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.state import Choice, NodeProblem
from reconciler.allocation.policies.by_device import BEST_FIT, SPREAD
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan
from tests.tools import naive_sets as naive
from tests.tools.builders import claim, device_class, match, request, snapshot, typed
from tests.tools.examples import examples
from tests.tools.naive_policies import SIZES, Parts

MANY = 10**6
"""More sets than there are"""
GPUS = st.lists(
    st.frozensets(st.sampled_from(["left", "q2", "q3"]), max_size=2).filter(
        lambda held: len(held) < 2 or "left" in held
    ),
    min_size=1,
    max_size=2,
)
ASKED = st.lists(
    st.tuples(st.sampled_from(sorted(set(SIZES.values()) - {"whole"})), st.integers(1, 3)),
    min_size=1,
    max_size=2,
).filter(lambda asked: sum(count for _, count in asked) > 1)
DEMAND = st.fixed_dictionaries(
    {size: st.tuples(st.integers(1, 9), st.sampled_from([1, 2, 3])) for size in ("half", "quarter")}
)
Twin = Callable[[Parts, str, Sequence[naive.Part], dict[str, tuple[int, int]]], naive.Loss]


def _selector(size: str) -> dict[str, object]:
    return {"cel": {"expression": f'device.attributes["d"].size == "{size}"'}}


def _claim(name: str, asked: Sequence[tuple[str, int]], *, together: bool = False) -> ResourceClaim:
    requests = [
        request(f"r{at}", count, selectors=[_selector(size)]) for at, (size, count) in enumerate(asked)
    ]
    made = typed(claim(name, *requests, constraints=[match("d/gpu")] if together else []))
    assert isinstance(made, ResourceClaim)
    return made


def _chosen(plans: Sequence[Plan]) -> tuple[naive.Part, ...]:
    names = [result.device for plan in plans for result in plan.allocation.devices.results]
    return tuple(
        (int(gpu.removeprefix("g")), part) for gpu, _, part in (name.partition("-") for name in names)
    )


@pytest.mark.parametrize("name", ["least-loss", "best-fit", "spread"])
@examples(20)
@given(gpus=GPUS, asked=ASKED, demand=DEMAND, together=st.booleans())
def test_the_set_is_the_best_of_all_that_fit(
    name: str,
    gpus: list[frozenset[str]],
    asked: list[tuple[str, int]],
    demand: dict[str, tuple[int, int]],
    together: bool,
):
    """With enough tries. With the usual ones it is no worse than the set to start from."""
    # The heaviest weight is scaled to a power of two, so weights are compared exactly only if it is one.
    demand = {**demand, "whole": (16, 1)}
    shapes = [Shape(_claim("s", [(size, count)]).spec, 0, 1, w) for size, (w, count) in demand.items()]
    policies: dict[str, tuple[Policy, Twin]] = {
        "least-loss": (LeastLoss(Demand(tuple(shapes))), naive.least_loss),
        "best-fit": (BEST_FIT, naive.best_fit),
        "spread": (SPREAD, naive.spread),
    }
    (policy, loss), parts = policies[name], Parts({"n": tuple(gpus)})
    feasible = naive.feasible(parts, "n", asked, together=together)
    assume(feasible)
    seen, wanted = snapshot(*parts.objects(), device_class()), _claim("c", asked, together=together)
    parsed = read_claims([wanted], seen.classes, seen.rules)

    def outcome(tries: int, width: int) -> naive.Loss:
        def choose(problem: NodeProblem, found: tuple[Choice, ...], reach: Reach | None):
            judge = policy.sets(PolicyQuestion(parsed, seen), problem.view)
            assert judge is not None
            best = BestSet(problem, parsed.slots, judge, reach, UNLIMITED, tries=tries, width=width)
            return best.better_than(found), best.steps

        found = attempt(parsed, "n", seen, steps=10_000, choose_set=choose if tries else None)
        assert isinstance(found, NodeGrant)
        chosen = _chosen(found.plans)
        assert tuple(sorted(chosen)) in {tuple(sorted(one)) for one in feasible}
        return loss(parts, "n", chosen, demand)

    best = min(loss(parts, "n", one, demand) for one in feasible)
    assert outcome(MANY, MANY) == best
    assert best <= outcome(TRIES, WIDTH) <= outcome(0, 0)


def test_a_policy_judges_counter_sets_after_all_devices_are_taken():
    """One by one, both would go to the same of two empty GPUs."""
    seen = snapshot(*Parts({"n": (frozenset(), frozenset())}).objects(), device_class())
    found = allocate([_claim("c", [("quarter", 2)])], seen, policy=SPREAD)
    assert isinstance(found, Granted)
    assert [gpu for gpu, _ in _chosen(found.plans)] == [0, 1]
