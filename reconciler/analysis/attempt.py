"""One attempt to place a pod with its claims on a snapshot: which nodes it may use, then which devices."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.placement.placing import NodeChoice, Placement, refusal_reason
from reconciler.allocation.placement.together import Together
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import NodeSubset, Snapshot

Sharing = tuple[Pod, tuple[ResourceClaim, ...], tuple[int, ...]]
"""Another gated pod that uses some of the claims: with its allocated claims, and the positions of the shared
ones"""
SelectNodes = Callable[..., NodeChoice]
"""`Placement.for_pod`, or another question of the same form"""


class Asked(Struct, frozen=True):
    """What is to be placed."""

    claims: tuple[ResourceClaim, ...]
    """Those that need devices; empty for a pod that only needs a node"""
    pod: Pod | None = None
    """None for a claim that no pod uses"""
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that are allocated already"""
    sharing: tuple[Sharing, ...] = ()


class Fit(NamedTuple):
    """Where it fits. Nothing is held."""

    node: str
    plans: tuple[Plan, ...]
    together: Together | None = None
    """How the pods fit that share the claims; None if no others do"""


class NoFit(NamedTuple):
    """Why it does not fit."""

    reason: str
    """An identifier of `reasons`, often a value of `Reason`"""
    message: str

    @property
    def proven(self) -> bool:
        """Whether it is certain; if not, the search gave up."""
        return self.reason != Reason.GAVE_UP


def attempt(
    asked: Asked,
    snapshot: Snapshot,
    placement: Placement,
    *,
    steps: int,
    budget: Budget = UNLIMITED,
    policies: Policies | None = None,
    select: SelectNodes | None = None,
    on: str | None = None,
    preferred: str | None = None,
) -> Fit | NoFit:
    """Place it as the reconciler would, without a trace. Raises Unfinished as `budget` does.

    `policies` are first fit without them, `select` is `placement.for_pod`. `on` is the only node to try;
    `preferred` is the node of a pod without claims to allocate, if it may be used.
    """
    together = None
    try:
        if asked.pod is None:
            nodes = placement.for_claim(snapshot).nodes
        else:
            nodes = (select or placement.for_pod)(asked.pod, asked.held, snapshot).nodes
            if asked.sharing and asked.claims:
                own = asked.pod, asked.held, tuple(range(len(asked.claims)))
                together = placement.together([own, *asked.sharing], snapshot)
                if together is not None:
                    nodes = placement.reduced(nodes, together, snapshot)
    except Rejected as exc:
        return NoFit(refusal_reason(exc), str(exc))
    if on is not None:
        nodes = _only(nodes, on, snapshot.topology.order)
    if not asked.claims:
        names = snapshot.topology.order if nodes is None else nodes
        node = preferred if preferred is not None and preferred in names else next(iter(names), None)
        if node is not None:
            return Fit(node, ())
        return NoFit(Reason.NO_NODE, _left_out(asked, snapshot, placement) or "no node suits the pod")
    outcome = decide(
        asked.claims,
        snapshot,
        nodes=nodes,
        steps=steps,
        budget=budget,
        companions=together,
        policy=None if policies is None else policies.of(asked.claims, snapshot, budget),
        pod=None if asked.pod is None or policies is None else placement.room(asked.pod, snapshot, policies),
    )
    if isinstance(outcome, Granted):
        return Fit(outcome.node, outcome.plans, together)
    more = _left_out(asked, snapshot, placement) if on is None else ""
    return NoFit(str(outcome.reason), "; ".join(filter(None, [outcome.message, more])))


def _left_out(asked: Asked, snapshot: Snapshot, placement: Placement) -> str:
    return "" if asked.pod is None else placement.left_out(asked.pod, asked.held, snapshot)


def _only(nodes: NodeSubset | None, name: str, order: tuple[str, ...]) -> NodeSubset:
    mask = np.zeros(len(order), dtype=np.bool_)
    at = order.index(name)
    mask[at] = nodes is None or bool(nodes.mask[at])
    return NodeSubset(order, mask)
