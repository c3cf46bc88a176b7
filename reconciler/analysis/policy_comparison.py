"""Repeats a decision with every placement policy, and counts what each choice costs the demand."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import OTHERS, Policies
from reconciler.api.objects.claims import ALL, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import Fork

STEPS = 2_000
"""Step limit of one decision on one node"""


class Choice(StrEnum):
    """How the choice of a policy relates to the decision that was made."""

    SAME = "same"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"


class Sample(Struct, frozen=True):
    """A decision, and the state from which it was made."""

    claims: tuple[ResourceClaim, ...]
    nodes: NodeSubset | None
    room: PodRoom | None
    granted: Granted
    fork: Fork


class Alternative(Struct, frozen=True):
    """What a policy would have done."""

    choice: Choice
    lost: float
    """Places: so many fewer claims of the demand fit afterwards, each shape alone, as their weighted mean"""


def compare(sample: Sample, policies: Policies, budget: Budget) -> Mapping[str, Alternative]:
    """Policy -> what it would have done with the same demand. A policy that finds nothing is left out.

    `policies` gives the demand and the seed. For the calling thread: nothing of the fork is shared. Raises
    Unfinished as `budget` does.
    """
    store = sample.fork.store()
    snapshot, demand = store.snapshot(), policies.demand
    before = places(demand, snapshot)
    costs: dict[object, float] = {}
    found: dict[str, Alternative] = {}
    for name in POLICIES:
        one = replace(policies, names=((OTHERS, name),))
        granted = decide(
            sample.claims,
            snapshot,
            nodes=sample.nodes,
            steps=STEPS,
            budget=budget,
            policy=one.of(sample.claims, snapshot),
            pod=sample.room,
        )
        if not isinstance(granted, Granted):
            continue
        chosen = _devices(granted)
        if chosen not in costs:
            costs[chosen] = before - _places_after(granted, demand, store)
        found[name] = Alternative(_choice(granted, sample.granted), costs[chosen])
    return found


def places(demand: Demand, snapshot: Snapshot) -> float:
    """How many claims fit, each shape alone, as the mean over the demand.

    Devices are counted: constraints, and what excludes devices from each other, may allow fewer.
    """
    total = sum(shape.weight for shape in demand.shapes)
    weighted = sum(shape.weight * _places_of(shape, snapshot) for shape in demand.shapes)
    return weighted / total if total else 0.0


def _places_of(shape: Shape, snapshot: Snapshot) -> int:
    """Claims of one shape that fit: on each node as many as its scarcest request allows by any option."""
    slots = [
        [(available(option, snapshot), max(option.source.wanted, 1)) for option in slot.options]
        for slot in shape.slots(snapshot)
    ]
    if not slots:
        return 0
    if all(one.local for slot in slots for one, _ in slot):
        of_slots = [np.max([one.per_node // wanted for one, wanted in slot], axis=0) for slot in slots]
        return int(np.min(of_slots, axis=0).sum())
    return min(max(int(one.mask.sum()) // wanted for one, wanted in slot) for slot in slots)


def _places_after(granted: Granted, demand: Demand, store: Store) -> float:
    for plan in granted.plans:
        store.assume(plan)
    try:
        return places(demand, store.snapshot())
    finally:
        for plan in granted.plans:
            store.forget(plan)


def _choice(one: Granted, made: Granted) -> Choice:
    if _devices(one) == _devices(made):
        return Choice.SAME
    return Choice.OTHER_DEVICES if one.node == made.node else Choice.OTHER_NODE


def _devices(granted: Granted) -> tuple[object, ...]:
    return tuple(
        (plan.claim, result.request, result.id)
        for plan in granted.plans
        for result in plan.allocation.devices.results
    )


MOST_REQUESTS = 3
"""Requests of one shape that are named"""


def shares(demand: Demand) -> list[tuple[str, float]]:
    """Each shape in words, with its part of all claims, the most frequent first."""
    total = sum(shape.weight for shape in demand.shapes)
    ordered = sorted(demand.shapes, key=lambda shape: -shape.weight)
    return [(in_words(shape), shape.weight / total) for shape in ordered]


def in_words(shape: Shape) -> str:
    """Such as `2 of class gpu, 1 of class nic; CPU 500m`."""
    requests = () if shape.spec is None else shape.spec.devices.requests
    parts = []
    for request in requests[:MOST_REQUESTS]:
        one = request.exactly or request.first_available[0]
        count = "all" if one.allocation_mode == ALL else str(max(one.count or 1, 1))
        more = "" if request.exactly is not None else ", or an alternative"
        selected = " with selectors" if one.selectors else ""
        parts.append(f"{count} of class {one.device_class_name}{selected}{more}")
    if len(requests) > MOST_REQUESTS:
        parts.append(f"{len(requests) - MOST_REQUESTS} more requests")
    devices = ", ".join(parts) or "no devices"
    return f"{devices}; CPU {shape.cores}m" if shape.cores else devices
