"""Lists of alternatives: every node has to be looked at until one gives the first choice."""

from collections.abc import Iterator

from perf.deciding import Decider, audit, read_claim
from perf.fleets import gpus
from perf.fleets.objects import Json, claim, device_class, node, node_names
from perf.workload import Outcome, Progress, Size, Workload, filling

MODELS = (("L4", "24Gi"), ("A100", "40Gi"), ("H100", "80Gi"))
RARE = 25
"""One node in so many has the best model"""


def prioritized(size: Size, progress: Progress) -> Outcome:
    """One H100, else two A100 of one NUMA node, else four L4."""
    decider = Decider.over(_fleet(size["nodes"]))
    for number in range(size["claims"]):
        alternatives = [_alternative("H100", 1), _alternative("A100", 2), _alternative("L4", 4)]
        request = {"name": "gpus", "firstAvailable": alternatives}
        decider.decide(read_claim(claim(f"claim-{number}", [request], match=gpus.NUMA)))
        progress(number + 1, size["claims"])
    audit(decider.store, decider.granted)
    return Outcome(decider.figures(), [filling(decider.seconds)])


def _fleet(nodes: int) -> Iterator[Json]:
    for model, _ in MODELS:
        yield device_class(model.lower(), f"device.attributes['{gpus.DRIVER}'].model == '{model}'")
    for number, name in enumerate(node_names(nodes)):
        model, memory = MODELS[2] if number % RARE == RARE - 1 else MODELS[number % 2]
        yield node(name)
        yield from gpus.node_slices(name, model=model, memory=memory)


def _alternative(model: str, count: int) -> Json:
    return {"name": model.lower(), "deviceClassName": model.lower(), "count": count}


WORKLOADS = [
    Workload(
        "prioritized",
        "firstAvailable: 1 H100, else 2 A100, else 4 L4, of one NUMA node",
        prioritized,
        {"": {"nodes": 500, "claims": 300}},
        tiny={"nodes": 3, "claims": 6},
    ),
]
