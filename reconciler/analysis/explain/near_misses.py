"""The nodes that almost fit, and what they lack."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.reasons.explanation import Lack, NearMiss
from reconciler.analysis.explain.device_status import closest_devices, describe_failure
from reconciler.analysis.explain.funnel import GateResult
from reconciler.analysis.explain.node_reach import NodeReach
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_NODES = 3
MOST_DEVICES = 3
"""Maximum devices of a node whose failure a near miss describes."""


def near_misses(
    parsed: ParsedClaims, results: Sequence[Sequence[GateResult]], snapshot: Snapshot, reach: NodeReach
) -> Iterator[NearMiss]:
    """The nodes that lack the fewest devices; among equals those with more matching devices, then by name.

    `results` has, for each slot, those of its alternatives.
    """
    # Counts come from users and may be huge: sums of them must not overflow.
    total = np.zeros(len(reach.names), dtype=np.float64)
    unmatched = np.zeros(len(reach.names), dtype=np.float64)
    for alternatives in results:
        total += np.min([_missing(result).astype(np.float64) for result in alternatives], axis=0)
        unmatched += np.min([_unmatched(result).astype(np.float64) for result in alternatives], axis=0)
    for at in np.lexsort((unmatched, total))[:MOST_NODES].tolist():
        lacks = []
        for alternatives in results:
            best = min(alternatives, key=lambda result: int(_missing(result)[at]))
            if _missing(best)[at]:
                lacks.append(_lack(parsed, best, at, snapshot, reach))
        yield NearMiss(reach.names[at], tuple(lacks))


def _missing(result: GateResult) -> Amounts:
    return np.maximum(result.nodes.wanted - result.nodes.have, 0)


def _unmatched(result: GateResult) -> Amounts:
    return np.maximum(result.nodes.wanted - result.selected_counts, 0)


def _lack(parsed: ParsedClaims, result: GateResult, at: int, snapshot: Snapshot, reach: NodeReach) -> Lack:
    most = min(int(_missing(result)[at]), MOST_DEVICES)
    rows = closest_devices(reach.at(at), result.gates, snapshot, most)
    why = dict.fromkeys(describe_failure(row, result.option, result.gates, snapshot) for row in rows.tolist())
    if not why:
        why["the node has no other device"] = None
    return Lack(
        parsed.claims[result.option.claim].key,
        result.option.name,
        int(result.nodes.have[at]),
        int(result.nodes.wanted[at]),
        tuple(why),
    )
