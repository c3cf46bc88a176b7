"""A proof by places: the devices that the requests need do not fit on their counter sets together.

Counters alone let a 4g and three 2g on one GPU, which has no place for them. Every counter set takes one of
few mixes of devices (an A100 has 2,319 sets of partitions that fit together, of a mix of two profiles fewer
than ten); a mix is found once for each content of a set and kept.
"""

from typing import TYPE_CHECKING

import numpy as np

from kernels.mixes import fitting_mixes, suffices
from kernels.types import Amounts, Mask, Rows
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Topology

if TYPE_CHECKING:
    from reconciler.allocation.dra.bounds import Remaining

MAX_STATES = 4096
"""States that are looked at for the mixes of one set. With more, its devices count as if all fit together."""
MAX_MIXES = 1024
"""Mixes of several sets that are compared. With more, nothing is proved."""
MAX_KEPT = 4096

_MIXES: Cache[Topology, dict[tuple[bytes, ...], Amounts]] = Cache(lambda _: {}, on_fork=dict.copy)


def no_mix_fits(remaining: "Remaining", within: tuple[Mask, frozenset[int]] | None) -> bool:
    """Whether no mixes of devices on the counter sets meet the requests that draw from one set each.

    Requests with alternatives, in mode All, for administrators, and for devices that are shared or draw from
    no set or several, are left out: so are constraints and exclusion. `within` restricts the slots in its
    second part to the devices in its first.
    """
    problem, state = remaining.problem, remaining.state
    if not len(problem.left):
        return False
    single = (problem.sets >= 0).sum(axis=1) == 1
    single &= ~(problem.shared | problem.snapshot.occupancy.sharing[problem.rows])
    wanted: dict[bytes, int] = {}
    masks: dict[bytes, Mask] = {}
    for at, alternatives in enumerate(remaining.by_slot):
        if len(alternatives) != 1:
            continue
        candidates, mask = alternatives[0]
        if candidates.listed is not None or candidates.option.admin:
            continue
        if within is not None and at in within[1]:
            mask = mask & within[0]
        if (mask & ~single).any():
            continue
        kind = mask.tobytes()
        masks[kind] = mask
        wanted[kind] = wanted.get(kind, 0) + candidates.count
    if not wanted:
        return False
    most = np.array(list(wanted.values()), dtype=np.intp)
    kinds = np.stack(list(masks.values()), axis=1)
    rows = np.flatnonzero(kinds.any(axis=1))
    sets = problem.sets[rows].max(axis=1)
    order = np.argsort(sets, kind="stable")
    numbers, begins = np.unique(sets[order], return_index=True)
    drawn = problem.draws[rows, (problem.sets[rows] >= 0).argmax(axis=1)]
    known = _MIXES.of(problem.snapshot.topology)
    tables = []
    for number, mine in zip(numbers.tolist(), np.split(rows[order], begins[1:]), strict=True):
        draws = drawn[np.searchsorted(rows, mine)]
        key = (state.left[number].tobytes(), draws.tobytes(), kinds[mine].tobytes(), most.tobytes())
        if key not in known:
            if len(known) >= MAX_KEPT:
                known.clear()
            known[key] = _mixes(state.left[number], problem.table[draws], kinds[mine], most)
        tables.append(known[key])
    return suffices(tables, most, limit=MAX_MIXES) is False


def _mixes(left: Amounts, draws: Amounts, kinds: Mask, most: Rows) -> Amounts:
    found = fitting_mixes(left, draws, kinds, most, limit=MAX_STATES)
    return np.minimum(kinds.sum(axis=0), most)[None].astype(np.int64) if found is None else found
