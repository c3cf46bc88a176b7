"""An explanation that may be made between decisions: it searches a bounded number of devices."""

from collections.abc import Iterable, Sequence

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain.explain import explain
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot.snapshot import Snapshot

STEPS = 200
"""Devices tried in one search, and ten times as many in all: what holds the loop holds it briefly."""


def explain_briefly(
    claims: Sequence[ResourceClaim], world: Snapshot, nodes: Iterable[str] | None
) -> Explanation:
    """As `explain`, for `nodes` or for all."""
    allowed = None if nodes is None else frozenset(nodes)
    return explain(claims, world, nodes=allowed, steps=STEPS, effort=10 * STEPS)
