"""Joint allocation in explanations: the required alignments and partitions, and the nearest misses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reconciler.allocation.alignment.deciding import Wished
from reconciler.allocation.alignment.partitions import Kept, kept_requests
from reconciler.allocation.alignment.preferences import has_wishes
from reconciler.allocation.dra.request_options import Asked
from reconciler.allocation.reasons.explanation import NearMiss
from reconciler.analysis.explain import partitions
from reconciler.analysis.explain.device_status import describe_failure
from reconciler.analysis.explain.funnel import GateResult
from reconciler.analysis.explain.groups import Masks
from reconciler.analysis.explain.near_misses import MOST_NODES
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.analysis.explain.relaxation import Relaxation
from reconciler.analysis.explain.tiers import RequiredAlignment, required_alignments
from reconciler.api.objects.plan import Reason
from reconciler.state.devices.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class JointRequirements:
    """The joint allocation requirements of claims: they stay pending until all are met."""

    alignments: tuple[RequiredAlignment, ...] = ()
    partitions: tuple[Kept, ...] = ()
    failed: RequiredAlignment | None = None
    """The first alignment that cannot be met together with the earlier ones"""

    def described(self) -> Iterator[tuple[str, Wished]]:
        """Each requirement: its text, and the key with which `decide` ignores it."""
        for alignment in self.alignments:
            yield f"the alignment on {alignment.wish.required}", (alignment.claim, alignment.number)
        for kept in self.partitions:
            yield f"the partition table for request {kept.at[1]}", kept.at


def joint_requirements(
    asked: Asked,
    left: Masks,
    snapshot: Snapshot,
    reach: NodeReach,
    reason: Reason | None,
    relaxation: Relaxation,
) -> JointRequirements:
    """The requirements of claims. `reason` is why they were refused; None if they can be allocated."""
    if not has_wishes(asked.claims, snapshot.classes):
        return JointRequirements()
    alignments = required_alignments(asked, left, snapshot, reach)
    honored = tuple(kept for kept in kept_requests(asked.claims, snapshot) if kept.honored)
    joint = JointRequirements(alignments, honored)
    if reason is not Reason.ALIGNMENT:
        return joint
    for number in range(1, len(alignments)):
        later = [wished for _, wished in JointRequirements(alignments[number:], honored).described()]
        if relaxation.fits_without(later) is False:
            return JointRequirements(alignments, honored, alignments[number - 1])
    return JointRequirements(alignments, honored, alignments[-1])


def joint_near_misses(
    joint: JointRequirements,
    left: Masks,
    results: Sequence[Sequence[GateResult]],
    snapshot: Snapshot,
    reach: NodeReach,
) -> Iterator[NearMiss]:
    """The nodes that are closest to meeting the failed alignment, or else the partitions."""
    if joint.failed is not None:
        failed = joint.failed
        if failed.countable:
            short = reach.by_code(failed.lacking(left), 1)
        else:
            short = np.zeros(len(reach.names), dtype=np.int64)
        for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
            best = failed.describe_best(reach.names[at], left, snapshot)
            enough = failed.countable and not short[at]
            yield NearMiss(reach.names[at], (), f"{best}, but these do not fit together" if enough else best)
        return
    by_request = {(r.ask.claim, r.ask.request): r for alternatives in results for r in alternatives}
    short = np.zeros(len(reach.names), dtype=np.int64)
    for kept in joint.partitions:
        short += reach.by_code(
            partitions.lacking(kept, by_request[kept.at].left, reach.code_count), kept.size
        )
    for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
        parts = [
            _closest(kept, by_request[kept.at], reach.code_of(at), snapshot) for kept in joint.partitions
        ]
        yield NearMiss(reach.names[at], (), "; ".join(parts))


def _closest(kept: Kept, result: GateResult, code: int, snapshot: Snapshot) -> str:
    def failure(row: int) -> str:
        return describe_failure(row, result.ask, result.gates, snapshot)

    return f"request {kept.at[1]}: {partitions.closest(kept, result.left, code, failure)}"
