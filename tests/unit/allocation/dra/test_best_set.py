"""The set of devices that a policy chooses, against trying all sets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.dra.charging import Reach
from reconciler.allocation.dra.node_attempt import NodeGrant, attempt
from reconciler.allocation.dra.preferred import TRIES, WIDTH, BestSet
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.state import Choice, NodeProblem
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import BEST_FIT, SPREAD, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan
from tests.tools.builders import claim, device_class, match, request, snapshot, typed
from tests.tools.examples import examples
from tests.tools.naive_policies import PARTS, SIZES, Parts, slots_of

Part = tuple[int, str]
"""(GPU, part)"""
Loss = tuple[int, int]


def feasible(
    parts: Parts, node: str, asked: Sequence[tuple[str, int]], *, together: bool
) -> list[tuple[Part, ...]]:
    """The parts for all requests, each a size and a count; `together`: all on one GPU."""
    return [
        chosen
        for chosen in _choices(parts, node, asked, ())
        if not together or len({gpu for gpu, _ in chosen}) == 1
    ]


def _choices(
    parts: Parts, node: str, asked: Sequence[tuple[str, int]], chosen: tuple[Part, ...]
) -> Iterator[tuple[Part, ...]]:
    if not asked:
        yield chosen
        return
    (size, count), *others = asked
    open_parts = [(gpu, part) for name, gpu, part in parts.candidates(size) if name == node]
    for picked in combinations(open_parts, count):
        if _apart((*chosen, *picked)):
            yield from _choices(parts, node, others, (*chosen, *picked))


def _apart(chosen: Sequence[Part]) -> bool:
    slots = [(gpu, slot) for gpu, part in chosen for slot in slots_of(part)]
    return len(slots) == len(set(slots))


def least_loss(
    parts: Parts, node: str, chosen: Sequence[Part], demand: Mapping[str, tuple[int, int]]
) -> Loss:
    """The value that is lost, then the free slots of the GPUs now. Demand: size -> (weight, count)."""
    taken = {(gpu, slot) for gpu, part in chosen for slot in slots_of(part)}
    before, after = dict.fromkeys(SIZES.values(), 0), dict.fromkeys(SIZES.values(), 0)
    for gpu in range(len(parts.held[node])):
        for part in parts.open_parts(node, gpu):
            before[SIZES[PARTS[part][1]]] += 1
            after[SIZES[PARTS[part][1]]] += not taken & {(gpu, slot) for slot in slots_of(part)}
    lost = sum(w * (before[size] // count - after[size] // count) for size, (w, count) in demand.items())
    return lost, sum(len(parts.free_slots(node, gpu)) for gpu, _ in chosen)


def best_fit(parts: Parts, node: str, chosen: Sequence[Part], _: object = None) -> Loss:
    """The free slots that are left of the GPUs, for each part."""
    taken = {(gpu, slot) for gpu, part in chosen for slot in slots_of(part)}
    left = [len(parts.free_slots(node, gpu)) - sum(at == gpu for at, _ in taken) for gpu, _ in chosen]
    return sum(left), 0


def spread(parts: Parts, node: str, chosen: Sequence[Part], _: object = None) -> Loss:
    """Its opposite."""
    return -best_fit(parts, node, chosen)[0], 0


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
Twin = Callable[[Parts, str, Sequence[Part], dict[str, tuple[int, int]]], Loss]


def _selector(size: str) -> dict[str, object]:
    return {"cel": {"expression": f'device.attributes["d"].size == "{size}"'}}


def _claim(name: str, asked: Sequence[tuple[str, int]], *, together: bool = False) -> ResourceClaim:
    requests = [
        request(f"r{at}", count, selectors=[_selector(size)]) for at, (size, count) in enumerate(asked)
    ]
    made = typed(claim(name, *requests, constraints=[match("d/gpu")] if together else []))
    assert isinstance(made, ResourceClaim)
    return made


def _chosen(plans: Sequence[Plan]) -> tuple[Part, ...]:
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
        "least-loss": (LeastLoss(Demand(tuple(shapes))), least_loss),
        "best-fit": (BEST_FIT, best_fit),
        "spread": (SPREAD, spread),
    }
    (policy, loss), parts = policies[name], Parts({"n": tuple(gpus)})
    possible = feasible(parts, "n", asked, together=together)
    assume(possible)
    seen, wanted = snapshot(*parts.objects(), device_class()), _claim("c", asked, together=together)
    parsed = read_claims([wanted], seen.classes, seen.rules)

    def outcome(tries: int, width: int) -> Loss:
        def choose(problem: NodeProblem, found: tuple[Choice, ...], reach: Reach | None):
            judge = policy.sets(PolicyQuestion(parsed, seen), problem.view)
            assert judge is not None
            best = BestSet(problem, parsed.slots, judge, reach, UNLIMITED, tries=tries, width=width)
            return best.better_than(found), best.steps

        found = attempt(parsed, "n", seen, steps=10_000, choose_set=choose if tries else None)
        assert isinstance(found, NodeGrant)
        chosen = _chosen(found.plans)
        assert tuple(sorted(chosen)) in {tuple(sorted(one)) for one in possible}
        return loss(parts, "n", chosen, demand)

    best = min(loss(parts, "n", one, demand) for one in possible)
    assert outcome(MANY, MANY) == best
    assert best <= outcome(TRIES, WIDTH) <= outcome(0, 0)


def test_a_policy_judges_counter_sets_after_all_devices_are_taken():
    """One by one, both would go to the same of two empty GPUs."""
    seen = snapshot(*Parts({"n": (frozenset(), frozenset())}).objects(), device_class())
    found = allocate([_claim("c", [("quarter", 2)])], seen, policy=SPREAD)
    assert isinstance(found, Granted)
    assert [gpu for gpu, _ in _chosen(found.plans)] == [0, 1]
