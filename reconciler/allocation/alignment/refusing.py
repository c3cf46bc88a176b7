"""Refusals because of preferences. The counts are those without preferences."""

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from reconciler.allocation.alignment.pairs import original_request
from reconciler.allocation.alignment.partitions import PartitionedRequest
from reconciler.allocation.alignment.preferences import Alignment
from reconciler.allocation.dra.request_options import read_claims
from reconciler.allocation.dra.tally import count_gates
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Gate, Reason, RequestCount, Unsatisfied
from reconciler.state.devices.snapshot.snapshot import Snapshot

ALIGNED = "are near enough to each other"
PARTITIONED = "are a partition that may be given"
Nodes = Collection[str] | None


def misaligned(
    claims: Sequence[ResourceClaim],
    alignments: Sequence[tuple[int, Alignment]],
    nodes: Nodes,
    snapshot: Snapshot,
) -> Unsatisfied:
    """No node has devices near enough. `alignments` are those that require a tier, by claim."""
    concerned = {
        (at, original_request(name)): None
        for at, alignment in alignments
        for name in alignment.requests or [request.name for request in claims[at].spec.devices.requests]
    }
    names = ", ".join(f"{claims[at].key} {name}" for at, name in concerned)
    tiers = ", ".join(dict.fromkeys(alignment.required for _, alignment in alignments))
    message = f"no node has devices for {names} that share {tiers}, which joint allocation requires"
    keys = tuple(claim.key for claim in claims)
    refused = Unsatisfied(keys, Reason.ALIGNMENT, message)
    return _counted(refused, claims, concerned, ALIGNED, nodes, snapshot)


def unpartitioned(
    refused: Unsatisfied,
    claims: Sequence[ResourceClaim],
    partitioned: Iterable[PartitionedRequest],
    nodes: Nodes,
    snapshot: Snapshot,
) -> Unsatisfied:
    """`refused` with counts."""
    concerned = {one.at for one in partitioned if one.honored}
    return _counted(refused, claims, concerned, PARTITIONED, nodes, snapshot)


def _counted(
    refused: Unsatisfied,
    claims: Sequence[ResourceClaim],
    concerned: Collection[tuple[int, str]],
    name: str,
    nodes: Nodes,
    snapshot: Snapshot,
) -> Unsatisfied:
    """With the counts of the tests for single devices; the last gate, `name`, leaves none."""
    considered = sorted(
        snapshot.topology.nodes if nodes is None else set(nodes) & set(snapshot.topology.nodes)
    )
    counts = []
    for slot in read_claims(claims, snapshot.classes, snapshot.rules).slots:
        for option in slot.options:
            gates = count_gates(option, snapshot, None if nodes is None else considered).gates
            if (option.claim, option.request) in concerned:
                gates = (*gates, Gate(name, 0))
            wanted = None if option.all else option.source.wanted
            counts.append(RequestCount(claims[option.claim].key, option.name, wanted, gates))
    return replace(refused, nodes=len(considered), counts=tuple(counts))
