"""MIG partitions that come and go on 104 A100 in nodes of eight, placed by the engine."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts
from perf.deciding import read_claim
from perf.fleets import mig as fleet
from perf.fleets.objects import Json, claim, device_class, node, node_names, pool
from perf.placement import evolution, loss_system
from perf.placement.cluster import Kind
from perf.placement.loss_system import Arrival
from perf.placement.profiles import MIXES, PLACES, PROFILES, SLICES, SLOTS, Place, mean_size
from perf.workload import Progress
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.api.objects.claims import ResourceClaimSpec

NODES = 13
TRAINING_SEEDS = range(12)
"""With four, the weights fit the runs that they were learnt from better than others"""
TRAINING_ARRIVALS = 6000


def gpus(nodes: int = NODES) -> int:
    """GPUs of all nodes."""
    return nodes * fleet.GPUS_A_NODE


def arrivals(mix: str, load: float, count: int, seed: int, nodes: int = NODES) -> list[Arrival]:
    """The arrivals of a mix. The rate follows from the load: GPUs asked for, of those that there are."""
    return loss_system.arrivals(count, mean_size(mix) / (load * gpus(nodes)), MIXES[mix], seed)


def log_normal(arriving: Sequence[Arrival], seed: int) -> list[Arrival]:
    """The same arrivals with durations of mean 1 that vary more: sigma 1."""
    lasting = np.random.default_rng([seed, 1]).lognormal(-0.5, 1.0, len(arriving)).tolist()
    return [one._replace(lasting=time) for one, time in zip(arriving, lasting, strict=True)]


def kinds() -> list[Kind]:
    """A kind of claim for each profile. What counts are its slices."""
    return [
        Kind(name, read_claim(claim(name, [fleet.partition("r", name)])), shape.slices)
        for name, shape in PROFILES.items()
    ]


def objects(nodes: int = NODES) -> Iterator[Json]:
    """The fleet: every place of every profile is a device that draws memory slots and compute slices."""
    yield device_class(fleet.CLASS, f"device.driver == '{fleet.DRIVER}'")
    for name in node_names(nodes):
        yield node(name)
        yield from partitions_of(name, fleet.GPUS_A_NODE)


def partitions_of(name: str, gpus: int) -> Iterator[Json]:
    """The pool of one node."""
    devices, sets = [], []
    for gpu in range(gpus):
        counters = {"slices": str(SLICES), **{f"slot-{slot}": "1" for slot in range(SLOTS)}}
        sets.append({"name": f"gpu-{gpu}", "counters": _values(counters)})
        devices += [_device(gpu, place) for place in PLACES]
    yield from pool(fleet.DRIVER, name, devices, reach={"nodeName": name}, counter_sets=sets)


def _device(gpu: int, place: Place) -> Json:
    shape = PROFILES[place.profile]
    drawn = {f"slot-{slot}": "1" for slot in range(place.start, place.start + shape.slots)}
    drawn["slices"] = str(shape.slices)
    return {
        "name": f"gpu-{gpu}-{place.profile.replace('.', '-')}-{place.start}",
        "attributes": {"profile": {"string": place.profile}, "start": {"int": place.start}},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": _values(drawn)}],
    }


def _values(amounts: dict[str, str]) -> Json:
    return {name: {"value": amount} for name, amount in amounts.items()}


def demand_of(mix: str) -> Demand:
    """The profiles that a mix asks for."""
    return Demand(
        tuple(
            Shape(kind.claim.spec, 0, share) for kind, share in zip(kinds(), MIXES[mix], strict=True) if share
        )
    )


def learnt_demand(mix: str, load: float, progress: Progress) -> Demand:
    """A value for every place of every profile, learnt from runs with other seeds than those measured."""
    runs = [arrivals(mix, load, TRAINING_ARRIVALS, seed) for seed in TRAINING_SEEDS]
    return demand_of_places(evolution.learnt(runs, gpus(), 0, progress))


def demand_of_places(weights: Amounts) -> Demand:
    """Each place as a shape of its own, worth its weight (P,)."""
    return Demand(
        tuple(
            Shape(_claim_of(place), 0, 1, int(weight))
            for place, weight in zip(PLACES, weights.tolist(), strict=True)
        )
    )


def _claim_of(place: Place) -> ResourceClaimSpec:
    request = fleet.partition("r", place.profile)
    start = f"device.attributes['{fleet.DRIVER}'].start == {place.start}"
    request["exactly"]["selectors"].append({"cel": {"expression": start}})
    return read_claim(claim("shape", [request])).spec
