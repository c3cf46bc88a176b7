"""How long "no" takes for families of problems that send a plain search into exponential time.

Every instance has one node, so that the search itself is what is timed. A search that gives up
within its budget has not proved anything; `gave up` counts those.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from perf.deciding import Decider, read_claim
from perf.fleets import gpus, mig
from perf.fleets.objects import Json, claim, device_class, exactly, node, pool
from perf.workload import Curve, Figure, Outcome, Progress, Size, Workload
from reconciler.api.objects.plan import Reason
from reconciler.library.making import mig_gpus

Instance = tuple[list[Json], Json]
ANY_GPU = f"device.attributes['{gpus.DRIVER}'].type == 'gpu'"
INDEX = f"device.attributes['{gpus.DRIVER}'].index"
GROUP = f"{gpus.DRIVER}/group"
NODE = "node"


def alike(holes: int) -> Instance:
    """One pigeon more than holes, every pigeon content with any hole."""
    return _gpus(holes), claim("claim", [exactly(f"r{n}", gpus.CLASS) for n in range(holes + 1)])


def choosy(holes: int) -> Instance:
    """One pigeon more than holes, and every pigeon refuses another hole: no two requests are alike."""
    requests = [exactly(f"r{n}", gpus.CLASS, f"{INDEX} != {n}") for n in range(holes + 1)]
    return _gpus(holes), claim("claim", requests)


def one_short(wanted: int) -> Instance:
    """As many requests as asked for must share an attribute of which every value occurs one time less."""
    groups = 8
    devices = [
        {"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}, "group": {"int": n % groups}}}
        for n in range(groups * (wanted - 1))
    ]
    requests = [exactly(f"r{n}", gpus.CLASS) for n in range(wanted)]
    slices = pool(gpus.DRIVER, NODE, devices, reach={"nodeName": NODE})
    return _one_node(gpus.CLASS, ANY_GPU, slices), claim("claim", requests, match=GROUP)


def crowded(gpu_count: int) -> Instance:
    """One 2g.10gb more than the GPUs of a node have room for: three each."""
    requests = [mig.partition(f"r{n}", "2g.10gb") for n in range(3 * gpu_count + 1)]
    return _partitions(gpu_count), claim("claim", requests)


def mixed(gpu_count: int) -> Instance:
    """A 4g.20gb on every GPU, and one 2g.10gb more than then has a place; by amounts all would fit."""
    shapes = ["4g.20gb"] * gpu_count + ["2g.10gb"] * (gpu_count + 1)
    requests = [mig.partition(f"r{n}", shape) for n, shape in enumerate(shapes)]
    return _partitions(gpu_count), claim("claim", requests)


class Family(NamedTuple):
    """Problems of one kind, by size."""

    name: str
    build: Callable[[int], Instance]
    unit: str
    step: int = 1
    """Of the size, so that families of different units grow alike"""


PIGEONS = (Family("pigeons alike", alike, "holes"), Family("pigeons choosy", choosy, "holes"))
OTHERS = (
    Family("one short of a shared attribute", one_short, "requests", step=4),
    Family("partitions crowded", crowded, "GPUs"),
    Family("partitions mixed", mixed, "GPUs"),
)


def pigeonhole(size: Size, progress: Progress) -> Outcome:
    """N + 1 requests for n devices, by n."""
    return _prove(PIGEONS, size, progress)


def families(size: Size, progress: Progress) -> Outcome:
    """The other families, by their size."""
    return _prove(OTHERS, size, progress)


def _prove(families: Sequence[Family], size: Size, progress: Progress) -> Outcome:
    sizes = range(size["from"], size["to"] + 1, size["step"])
    figures: list[Figure] = []
    curves: list[Curve] = []
    gave_up = 0
    for number, family in enumerate(families):
        points: list[tuple[float, float]] = []
        for at, instance_size in enumerate(family.step * size for size in sizes):
            fleet, wanted = family.build(instance_size)
            decider = Decider.over(fleet)
            outcome = decider.refuse(read_claim(wanted))
            gave_up += outcome.reason is Reason.GAVE_UP
            points.append((instance_size, decider.seconds[0] * 1e3))
            progress(number * len(sizes) + at + 1, len(families) * len(sizes))
        figures += [
            Figure(f"{family.name}, {at:.0f} {family.unit}", milliseconds, "ms")
            for at, milliseconds in {points[0]: None, points[-1]: None}
        ]
        curves.append(Curve(family.name, family.unit, "ms", points))
    return Outcome([*figures, Figure("gave up", gave_up, "searches")], curves)


def _gpus(count: int) -> list[Json]:
    return _one_node(gpus.CLASS, ANY_GPU, gpus.node_slices(NODE, count))


def _partitions(gpu_count: int) -> list[Json]:
    everything = f"device.attributes['{mig.DRIVER}'].type == 'mig'"
    return _one_node(mig.CLASS, everything, mig_gpus(NODE, gpu_count))


def _one_node(name: str, expression: str, slices: Iterable[Json]) -> list[Json]:
    return [device_class(name, expression), node(NODE), *slices]


WORKLOADS = [
    Workload(
        "pigeonhole",
        "proving that n devices do not serve n + 1 requests",
        pigeonhole,
        {"": {"from": 8, "to": 31, "step": 1}},
        tiny={"from": 2, "to": 3, "step": 1},
    ),
    Workload(
        "infeasible-families",
        "proving that claims do not fit: shared attributes, and places on GPUs",
        families,
        {"": {"from": 2, "to": 8, "step": 1}},
        tiny={"from": 1, "to": 2, "step": 1},
        repeats=1,  # the largest sizes take minutes where they are not proved but given up
    ),
]
