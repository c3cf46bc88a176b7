"""Joint allocation in explanations: the required alignments and partitions, and the nearest misses."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from reconciler.allocation.alignment.deciding import PreferenceKey
from reconciler.allocation.alignment.partitions import PartitionedRequest, partitioned_requests
from reconciler.allocation.alignment.preferences import has_preferences
from reconciler.allocation.dra.request_options import ParsedClaims
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


class JointRequirements(Struct, frozen=True, eq=False):
    """The joint allocation requirements of claims: they stay pending until all are met."""

    alignments: tuple[RequiredAlignment, ...] = ()
    partitions: tuple[PartitionedRequest, ...] = ()
    failed: RequiredAlignment | None = None
    """The first alignment that cannot be met together with the earlier ones"""

    def described(self) -> Iterator[tuple[str, PreferenceKey]]:
        """Each requirement: its text, and the key with which `decide` ignores it."""
        for alignment in self.alignments:
            yield f"the alignment on {alignment.alignment.required}", (alignment.claim, alignment.number)
        for request in self.partitions:
            yield f"the partition table for request {request.at[1]}", request.at


def joint_requirements(
    parsed: ParsedClaims,
    left: Masks,
    snapshot: Snapshot,
    reach: NodeReach,
    reason: Reason | None,
    relaxation: Relaxation,
) -> JointRequirements:
    """The requirements of claims. `reason` is why they were refused; None if they can be allocated."""
    if not has_preferences(parsed.claims, snapshot.classes):
        return JointRequirements()
    alignments = required_alignments(parsed, left, snapshot, reach)
    honored = tuple(request for request in partitioned_requests(parsed.claims, snapshot) if request.honored)
    joint = JointRequirements(alignments, honored)
    if reason is not Reason.ALIGNMENT:
        return joint
    for number in range(1, len(alignments)):
        later = [preference for _, preference in JointRequirements(alignments[number:], honored).described()]
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
    by_request = {(r.option.claim, r.option.request): r for alternatives in results for r in alternatives}
    short = np.zeros(len(reach.names), dtype=np.int64)
    for request in joint.partitions:
        short += reach.by_code(
            partitions.lacking(request, by_request[request.at].left, reach.code_count), request.size
        )
    for at in np.argsort(short, kind="stable")[:MOST_NODES].tolist():
        parts = [
            _closest(request, by_request[request.at], reach.code_of(at), snapshot)
            for request in joint.partitions
        ]
        yield NearMiss(reach.names[at], (), "; ".join(parts))


def _closest(request: PartitionedRequest, result: GateResult, code: int, snapshot: Snapshot) -> str:
    def failure(row: int) -> str:
        return describe_failure(row, result.option, result.gates, snapshot)

    return f"request {request.at[1]}: {partitions.closest(request, result.left, code, failure)}"
