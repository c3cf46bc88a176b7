"""Standing advice which pods to move: what a plan costs, and what it costs while nothing changes."""

from time import process_time

from perf.fleets import mig
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.defragment import churned
from reconciler.analysis.relocation.goals import parse_goal
from reconciler.analysis.world import world_of
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.app.moving import MovePlanner
from reconciler.control.ownership import Ownership
from reconciler.control.relocation.moves import Calm
from reconciler.control.relocation.rebalancer import LOOK, SHARE
from reconciler.control.relocation.relocator import Question
from reconciler.state.trial import Forked

LOOKS = 10_000
"""Looks at rest of which one is the mean"""


def advice(size: Size, progress: Progress) -> Outcome:
    """The goal and the limits are the defaults. Processor time of all threads."""
    world = world_of([*map(read, mig.fleet(size["nodes"])), *churned(size["nodes"])], Semantics())
    planner = MovePlanner(Ownership(alone=True), [parse_goal("90%")], None, most_moves=10, moves_per_gain=3)
    figures: list[Figure] = []
    for number in range(size["plans"]):
        began = process_time()
        fork = Forked.fork_of(world.store)
        question = Question(fork, world.nodes.fork(), world.groups.fork(), (), lambda _: False)
        forked = process_time()
        (found,) = planner.plan(question, lambda: True)
        planned = process_time()
        figures = [
            Figure("fork, on the loop", forked - began, "s"),
            Figure("plan, in a thread", planned - forked, "s"),
            Figure("seconds between two plans at least", (planned - forked) / SHARE, "s"),
            Figure("gain", found.after - found.before, "devices", "more"),
            Figure("moves", len(found.moves), "pods"),
        ]
        progress(number + 1, size["plans"])
    calm, state = Calm(60.0), (world.store.snapshot().version, world.nodes.serial)
    calm.planned(state, 0.0, 0.0)
    began = process_time()
    for number in range(LOOKS):
        calm.due((world.store.snapshot().version, world.nodes.serial), float(number))
    look = (process_time() - began) / LOOKS
    return Outcome([*figures, Figure("share of a core at rest", look / LOOK * 100, "%")])


WORKLOADS = [
    Workload(
        "advice",
        "standing advice which pods to move on a fleet that is 85 % full after claims came and left",
        advice,
        {"10,400 partitions": {"nodes": 50, "plans": 3}},
        tiny={"nodes": 1, "plans": 1},
    ),
]
