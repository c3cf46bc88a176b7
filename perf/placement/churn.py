"""A fleet of mixed models that is full most of the time: claims come and go, and are refused if nothing fits.

Of five nodes one has four A100 as MIG partitions, two have eight H100, and two have four L4 that claims
share. Each part of the fleet is asked for as much, relative to its GPUs. Half of the claims have a pod that
needs CPU, more of it than its share of the node in one case of four.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from perf.deciding import read_claim
from perf.fleets import mig as mig_fleet
from perf.fleets.objects import Json, claim, device_class, exactly, node, node_names, pool
from perf.placement import loss_system
from perf.placement.cluster import Kind
from perf.placement.loss_system import Arrival
from perf.placement.mig import partitions_of
from perf.placement.profiles import MIXES, PROFILES
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.api.objects.claims import ResourceClaim

DRIVER = "gpu.example.com"
CLASS = "gpu"
MIX = "mixed"
CORES = 1000
"""Thousandths of a core"""


class Model(NamedTuple):
    """The nodes of one model of GPU."""

    name: str
    nodes: int
    """Of five"""
    gpus: int
    cores: int


A100, H100, L4 = MODELS = (Model("A100", 1, 4, 64), Model("H100", 2, 8, 128), Model("L4", 2, 4, 48))
WHOLE = {1: 40, 2: 25, 4: 20, 8: 15}
"""H100 a claim asks for -> how often"""
SHARES = {(1, 250): 40, (1, 500): 30, (1, 1000): 20, (2, 1000): 7, (4, 1000): 3}
"""(L4, thousandths of each) -> how often"""
CPU = {0: 50, 1: 12, 2: 25, 4: 13}
"""Half of its share of the node's CPU that a claim's pod needs, so many times -> how often"""


class Asked(NamedTuple):
    """A kind of claim and its share of the arrivals."""

    kind: Kind
    share: float


def model_of(number: int) -> Model:
    """The model of a node: five in turn."""
    return (A100, H100, L4, H100, L4)[number % 5]


def cores(nodes: int) -> Mapping[str, int]:
    """Thousandths of a CPU of each node."""
    return {name: model_of(number).cores * CORES for number, name in enumerate(node_names(nodes))}


def gpus(nodes: int) -> int:
    """GPUs of all nodes."""
    return sum(model_of(number).gpus for number in range(nodes))


def objects(nodes: int) -> Iterator[Json]:
    """The fleet."""
    yield device_class(mig_fleet.CLASS, f"device.driver == '{mig_fleet.DRIVER}'")
    yield device_class(CLASS, f"device.driver == '{DRIVER}'")
    for number, name in enumerate(node_names(nodes)):
        yield node(name)
        model = model_of(number)
        if model is A100:
            yield from partitions_of(name, model.gpus)
        else:
            devices = [_gpu(at, model) for at in range(model.gpus)]
            yield from pool(DRIVER, name, devices, reach={"nodeName": name})


def _gpu(at: int, model: Model) -> Json:
    device: Json = {"name": f"gpu-{at}", "attributes": {"model": {"string": model.name}}}
    if model is L4:
        device |= {"allowMultipleAllocations": True, "capacity": {"milli": {"value": "1000"}}}
    return device


def asked() -> list[Asked]:
    """All kinds of claims. What one counts for is the part of a GPU that it takes, or the GPUs."""
    found = []
    for model, kinds in ((A100, _partitions()), (H100, _whole()), (L4, _shared())):
        mean = sum(kind.worth * share for kind, share in kinds) / sum(share for _, share in kinds)
        each = model.nodes * model.gpus / mean / sum(share for _, share in kinds)
        for kind, share in kinds:
            found += [
                Asked(_with_cpu(kind, model, halves), share * each * often / sum(CPU.values()))
                for halves, often in CPU.items()
            ]
    return found


def arrivals(nodes: int, load: float, count: int, seed: int) -> list[Arrival]:
    """Arrivals at a rate that follows from the load: GPUs asked for, of those that there are."""
    kinds = asked()
    shares = [share for _, share in kinds]
    mean = sum(kind.worth * share for kind, share in kinds) / sum(shares)
    return loss_system.arrivals(count, mean / (load * gpus(nodes)), shares, seed)


def demand() -> Demand:
    """What is asked for, and how often of a million."""
    kinds = asked()
    total = sum(share for _, share in kinds)
    return Demand(
        tuple(
            Shape(kind.claim.spec, kind.cores, max(round(share / total * 10**6), 1)) for kind, share in kinds
        )
    )


def _with_cpu(kind: Kind, model: Model, halves: int) -> Kind:
    of_node = model.cores * CORES * kind.worth / model.gpus
    return Kind(kind.name, kind.claim, kind.worth, round(of_node * halves / 2 / 100) * 100)


def _partitions() -> list[Asked]:
    return [
        Asked(
            Kind(f"A100 {name}", read_claim(claim("c", [mig_fleet.partition("r", name)])), shape.size), often
        )
        for (name, shape), often in zip(PROFILES.items(), MIXES[MIX], strict=True)
        if often
    ]


def _whole() -> list[Asked]:
    return [
        Asked(Kind(f"H100 x {count}", _claim(H100, count), count), often) for count, often in WHOLE.items()
    ]


def _shared() -> list[Asked]:
    return [
        Asked(Kind(f"L4 {milli} x {count}", _claim(L4, count, milli), count * milli / 1000), often)
        for (count, milli), often in SHARES.items()
    ]


def _claim(model: Model, count: int, milli: int = 0) -> ResourceClaim:
    chosen = f"device.attributes['{DRIVER}'].model == '{model.name}'"
    capacity = {"milli": str(milli)} if milli else None
    return read_claim(claim("c", [exactly("r", CLASS, chosen, count=count, capacity=capacity)]))
