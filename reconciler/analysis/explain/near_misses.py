"""The nodes that come closest, and what they lack."""

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.types import Amounts
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.reasons.explanation import Lack, NearMiss
from reconciler.analysis.explain.device_status import against, nearest
from reconciler.analysis.explain.funnel import Sieve
from reconciler.analysis.explain.places import Places
from reconciler.state.devices.snapshot.snapshot import Snapshot

MOST_NODES = 3
MOST_DEVICES = 3
"""Devices of a node about which a near miss says what stands against them."""


def near_misses(
    parsed: ParsedClaims, sieves: Sequence[Sequence[Sieve]], world: Snapshot, places: Places
) -> Iterator[NearMiss]:
    """The nodes that lack fewest devices; then those that have most of the kind, if in use; then by name.

    `sieves` are those of each slot's alternatives.
    """
    total = np.zeros(len(places.names), dtype=np.int64)
    foreign = np.zeros(len(places.names), dtype=np.int64)
    for alternatives in sieves:
        total += np.min([_missing(sieve) for sieve in alternatives], axis=0)
        foreign += np.min([np.maximum(s.nodes.wanted - s.meant, 0) for s in alternatives], axis=0)
    for at in np.lexsort((foreign, total))[:MOST_NODES].tolist():
        lacks = []
        for alternatives in sieves:
            best = min(alternatives, key=lambda sieve: int(_missing(sieve)[at]))
            if _missing(best)[at]:
                lacks.append(_lack(parsed, best, at, world, places))
        yield NearMiss(places.names[at], tuple(lacks))


def _missing(sieve: Sieve) -> Amounts:
    return np.maximum(sieve.nodes.wanted - sieve.nodes.have, 0)


def _lack(parsed: ParsedClaims, sieve: Sieve, at: int, world: Snapshot, places: Places) -> Lack:
    most = min(int(_missing(sieve)[at]), MOST_DEVICES)
    rows = nearest(places.at(at), sieve.gates, world, most)
    why = dict.fromkeys(against(row, sieve.option, sieve.gates, world) for row in rows.tolist())
    if not why:
        why["the node has no other device"] = None
    return Lack(
        parsed.claims[sieve.option.claim].key,
        sieve.option.name,
        int(sieve.nodes.have[at]),
        int(sieve.nodes.wanted[at]),
        tuple(why),
    )
