"""Defragmentation: moves that regain whole GPUs on a fleet that claims of all sizes have come to and left."""

import gc
from collections.abc import Iterator
from time import perf_counter, thread_time

from numpy.random import default_rng

from perf.deciding import Decider, Wrong
from perf.fleets import mig
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.mig import drawn_profiles, partition_claim
from perf.workloads.room import running
from reconciler.analysis.capacity.layout import fleet_layout
from reconciler.analysis.capacity.measure import Solver
from reconciler.analysis.relocation.goals import movers_of, profile_goal
from reconciler.analysis.relocation.moves_planner import Plan, Planner
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import World, world_of
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read

SEED = 2
FULL = 0.85
"""Of the memory slices, after claims have left"""
GENERATIONS = 3
"""How often the fleet fills up, and claims at random leave"""
REFUSALS = 12
"""Refused claims in a row at which the fleet counts as full"""
WHOLE = (mig.DRIVER, "7g.40gb")


def defragment(size: Size, progress: Progress) -> Outcome:
    """Plans on the same state; the first one also compiles selectors."""
    world = world_of([*map(read, mig.fleet(size["nodes"])), *churned(size["nodes"])], Semantics())
    gc.collect()  # as the controller does once everything is listed
    gc.freeze()
    figures: list[Figure] = []
    for number in range(size["plans"]):
        busy, began = thread_time(), perf_counter()
        plan, before = _plan(world, size["gain"])
        if plan.gain > plan.most or (plan.fewest or 0) > len(plan.moves):
            raise Wrong(f"a bound does not hold: {plan.gain} of {plan.most}, {len(plan.moves)} moves")
        figures = [
            Figure("plan", perf_counter() - began, "s"),
            Figure("plan, processor", thread_time() - busy, "s"),
            Figure("7g that fit before", before, "devices", ""),
            Figure("gain", plan.gain, "devices", "more"),
            Figure("gain at most", plan.most, "devices", ""),
            Figure("moves", len(plan.moves), "pods"),
            Figure("moves at least", plan.fewest or 0, "pods", ""),
            Figure("pods", len(world.store.pods), "pods", ""),
        ]
        progress(number + 1, size["plans"])
    return Outcome(figures)


def _plan(world: World, gain: int) -> tuple[Plan, int]:
    """From the state to the plan, and how many fit before."""
    snapshot = world.store.snapshot()
    layout = fleet_layout(snapshot.topology)
    goal = profile_goal(layout, layout.profiles.names.index(WHOLE), Solver())
    with world.trial() as trial:
        occupants = Occupants(world)
        movers = movers_of(occupants, world.store)
        planner = Planner(goal, movers, occupants, trial, steps=10_000)
        return planner.run(gain), planner.before


def churned(nodes: int) -> Iterator[ApiObject]:
    """Claims and their pods: the fleet fills up, claims leave at random, and so on."""
    decider, drawn = Decider.over(mig.fleet(nodes)), default_rng(SEED)
    capacity = nodes * mig.GPUS_A_NODE * mig.MEMORY_SLICES
    profiles = drawn_profiles(GENERATIONS * capacity + GENERATIONS * REFUSALS)
    held: dict[int, tuple[ResourceClaim, Granted, int]] = {}
    used = number = 0
    for _ in range(GENERATIONS):
        refused = 0
        while refused < REFUSALS:
            profile = profiles[number]
            one = partition_claim(number, profile)
            outcome = decider.decide(one)
            if isinstance(outcome, Granted):
                held[number] = one, outcome, mig.PROFILES[profile].span
                used += mig.PROFILES[profile].span
            refused = 0 if isinstance(outcome, Granted) else refused + 1
            number += 1
        while used > FULL * capacity:
            leaving = list(held)[int(drawn.integers(len(held)))]
            _, granted, span = held.pop(leaving)
            for plan in granted.plans:
                decider.store.forget(plan)
            used -= span
    for one, granted, _ in held.values():
        yield from running(one, granted, 0)


WORKLOADS = [
    Workload(
        "defragment",
        "moves that regain whole GPUs of a fleet that is 85 % full after claims came and left",
        defragment,
        {"20 x 7g on 10,400 partitions": {"nodes": 50, "gain": 20, "plans": 3}},
        tiny={"nodes": 1, "gain": 1, "plans": 1},
    ),
]
