"""Explanations within a small step limit, so that they can run between decisions."""

from collections.abc import Iterable, Sequence

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain.explain import explain
from reconciler.api.objects.claims import ResourceClaim
from reconciler.state.devices.snapshot.snapshot import Snapshot

STEPS = 200
"""Maximum devices tried in one search; all searches together try ten times as many. The event loop is blocked
meanwhile."""


def explain_briefly(
    claims: Sequence[ResourceClaim], snapshot: Snapshot, nodes: Iterable[str] | None
) -> Explanation:
    """Like `explain`; `nodes` None means all nodes."""
    allowed = None if nodes is None else frozenset(nodes)
    return explain(claims, snapshot, nodes=allowed, steps=STEPS, effort=10 * STEPS)
