"""All input of a decision, as JSON, and helpers that decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ParamSpec, TypeVar
from unittest.mock import patch

from reconciler.allocation.dra import result
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.node_attempt import NodeGrant, NodeRefusal, attempt
from reconciler.allocation.dra.request_options import ParsedClaims, read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan, Reason, Unsatisfied
from reconciler.api.objects.semantics import GATES, Semantics
from reconciler.state.devices.snapshot import Snapshot
from tests.tools.builders import (
    Object,
    claim,
    device_class,
    held,
    hold,
    node,
    resource_slice,
    snapshot,
    typed,
)

P = ParamSpec("P")
Found = TypeVar("Found")

STEPS = 100_000

NEW = Semantics()
OLD = Semantics("1.36")

Picks = list[list[tuple[str, str]]]
"""For every claim its results in order: (request, device)."""
Answer = Picks | Reason | None
"""None is a plain "does not fit"."""


def without(*gates: str, release: Semantics = NEW) -> Semantics:
    """The rules with some feature gates off."""
    return replace(release, gates=frozenset(GATES) - set(gates))


def asks(*requests: Object, **fields: Any) -> list[Object]:
    """One claim, `c`."""
    return [claim("c", *requests, **fields)]


@dataclass(frozen=True)
class World:
    """Objects of one small cluster, and pending claims that are decided together."""

    slices: Sequence[Object]
    claims: Sequence[Object]
    held: Sequence[Object] = ()
    classes: Sequence[Object] = field(default_factory=lambda: (device_class(),))
    nodes: Sequence[Object] = field(default_factory=lambda: (node("n"),))
    taint_rules: Sequence[Object] = ()
    rules: Semantics = NEW

    def snapshot(self) -> Snapshot:
        return snapshot(
            *self.nodes, *self.classes, *self.slices, *self.taint_rules, *self.held, rules=self.rules
        )

    def wanted(self) -> list[ResourceClaim]:
        return [c for c in map(typed, self.claims) if isinstance(c, ResourceClaim)]

    def parsed(self, seen: Snapshot) -> ParsedClaims:
        """Raises Fatal for what no node could meet."""
        return read_claims(self.wanted(), seen.classes, self.rules)


def on_node(
    world: World, name: str = "n", *, pruned: bool = True, steps: int = STEPS
) -> NodeGrant | NodeRefusal:
    """The attempt on one node."""
    seen = world.snapshot()
    try:
        parsed = world.parsed(seen)
    except Fatal as fatal:
        return NodeRefusal(fatal.reason, str(fatal), 0)
    return numbered(attempt, parsed, name, seen, steps=steps, pruned=pruned)


def decide(world: World, *, nodes: Sequence[str] | None = None, steps: int = STEPS) -> Granted | Unsatisfied:
    """The decision over all nodes."""
    return numbered(allocate, world.wanted(), world.snapshot(), nodes=nodes, steps=steps)


def numbered(decide: Callable[P, Found], *args: P.args, **fields: P.kwargs) -> Found:
    """What a function decides, with share ids in a known sequence."""
    numbers = count(1)
    with patch.object(result, "random_share", lambda: f"share-{next(numbers)}"):
        return decide(*args, **fields)


def picks(plans: Sequence[Plan]) -> Picks:
    return [[(r.request, str(r.id)) for r in plan.allocation.devices.results] for plan in plans]


def answer(outcome: NodeGrant | NodeRefusal) -> Answer:
    """Devices, the reason of the error, or None for a plain "does not fit"."""
    return picks(outcome.plans) if isinstance(outcome, NodeGrant) else outcome.reason


def spelled(outcome: NodeGrant | NodeRefusal) -> list[str] | Reason | None:
    """As `answer`, in short: one line for each claim, `r=A r=B`, devices without their pool."""
    found = answer(outcome)
    if not isinstance(found, list):
        return found
    return [" ".join(f"{request}={device.rpartition('/')[2]}" for request, device in c) for c in found]


# -- A rule as a case: slices, claims, held devices, and the expected answer.


@dataclass(frozen=True)
class Case:
    """`expected` is one line for each claim, an error, or None for "does not fit"."""

    expected: list[str] | Reason | None
    on: Object | Sequence[Object]
    """One slice or several"""
    claims: Sequence[Object]
    world: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the world"""

    def answer(self, *, pruned: bool = True) -> list[str] | Reason | None:
        slices = [self.on] if isinstance(self.on, dict) else self.on
        return spelled(on_node(World(slices, self.claims, **self.world), pruned=pruned))


def local(*content: Object, **fields: Any) -> Object:
    """The only slice of a pool, for node n."""
    return resource_slice("s", content, **{"nodeName": "n", **fields})


def taken(*names: str) -> dict[str, Any]:
    """A world in which another claim holds these devices."""
    return {"held": [held("h", *map(hold, names))]}
