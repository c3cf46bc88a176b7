"""What "why not" costs in processor time: what hearing a refusal adds, and a whole explanation."""

from time import process_time

from perf.deciding import Decider, Wrong, read_claim
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.workload import Figure, Outcome, Progress, Size, Workload, latencies
from perf.workloads.mig import drawn_profiles, partition_claim
from reconciler.analysis.explain.explain import FEW_STEPS, explain
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.control.decisions.allocating import Waits
from reconciler.control.explainer import RefusalQueue


def refusals(size: Size, progress: Progress) -> Outcome:
    """The same refusals on a fleet that is nearly full: alone, heard, and explained."""
    decider = _full(size["nodes"])
    asked = {
        "partition": _claim("partition", mig.partition("r", "3g.20gb")),
        "tied": _claim("tied", mig.partition("r", "2g.10gb", count=4), match=mig.PARENT),
    }
    figures: list[Figure] = []
    for number, (name, wanted) in enumerate(asked.items()):
        alone: list[float] = []
        heard: list[float] = []
        whole: list[float] = []
        queue = RefusalQueue()
        for turn in range(size["times"]):
            _touch(decider, turn)
            began = process_time()
            outcome = decider.refuse(wanted)
            alone.append(process_time() - began)
            began = process_time()
            queue.on_decision(Waits(outcome.claims, None, outcome.reason, outcome.message))
            heard.append(process_time() - began)
            world = decider.store.snapshot()
            began = process_time()
            told = explain([wanted], world, steps=FEW_STEPS, effort=10 * FEW_STEPS)
            whole.append(process_time() - began)
            if told.allocatable or not told.nearest:
                raise Wrong(f"{name} must be explained")
            progress(number * size["times"] + turn + 1, len(asked) * size["times"])
        refusing = sum(alone) / len(alone)
        figures += [
            *latencies(alone, f"{name}: refusal"),
            Figure(f"{name}: hearing adds", 100 * sum(heard) / len(heard) / refusing, "%"),
            *latencies(whole, f"{name}: explanation"),
        ]
    return Outcome(figures)


def _claim(name: str, request: Json, match: str = "") -> ResourceClaim:
    return read_claim(claim(name, [request], match=match) if match else claim(name, [request]))


def _full(nodes: int) -> Decider:
    """A fleet filled until eight claims in a row got nothing."""
    decider = Decider.over(mig.fleet(nodes))
    refused = 0
    for number, profile in enumerate(drawn_profiles(nodes * 100)):
        refused = (
            refused + 1 if isinstance(decider.decide(partition_claim(number, profile)), Unsatisfied) else 0
        )
        if refused == 8:
            break
    return decider


def _touch(decider: Decider, turn: int) -> None:
    """Take a plan back and hold it again, so that nothing is known from the question before."""
    granted = [outcome for outcome in decider.outcomes if isinstance(outcome, Granted)]
    plan = granted[turn % len(granted)].plans[0]
    decider.store.forget(plan)
    decider.store.snapshot()
    decider.store.assume(plan)


WORKLOADS = [
    Workload(
        "explain",
        "refusals on a full fleet of partitions: alone, heard by who explains, and explained",
        refusals,
        {"": {"nodes": 50, "times": 40}},
        tiny={"nodes": 1, "times": 2},
    ),
]
