"""Which numbers of each kind of device fit together: on one counter set, and over many. Exact within a limit.

A bound by amounts alone lets a 4g and three 2g through that have no place together on a GPU. Here the devices
of one set are combined with their draws, and what is left is a question about small vectors of counts.
"""

from collections.abc import Sequence

import numpy as np

from kernels.types import Amounts, Mask, Rows


def fitting_mixes(left: Amounts, draws: Amounts, kinds: Mask, most: Rows, *, limit: int) -> Amounts | None:
    """The largest counts of each kind that fit on one set together.

    left   (C,)    remaining counters of the set; may be negative
    draws  (m, C)  draw of each device; a draw of 0 always fits
    kinds  (m, K)  whether a device serves as a kind; each device serves once
    most   (K,)    counts above this do not matter
    limit          states to look at
    ->     (v, K)  counts of which none is below another in every kind; None if the limit was reached
    """
    drawn = draws.any(axis=0)
    wanted = draws[:, drawn]
    start = tuple(np.minimum(left[drawn], wanted.sum(axis=0)).tolist())
    states = {(start, (0,) * len(most))}
    caps = most.tolist()
    looked = 0
    for draw, serves in zip(wanted.tolist(), kinds.tolist(), strict=True):
        added = set()
        for remaining, counts in states:
            if any(amount > have for amount, have in zip(draw, remaining, strict=True) if amount):
                continue
            after = tuple([have - amount for have, amount in zip(remaining, draw, strict=True)])
            for kind, does in enumerate(serves):
                if does and counts[kind] < caps[kind]:
                    added.add((after, (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])))
        looked += len(states)
        if looked > limit:
            return None
        states |= added
    return undominated(np.array([*{counts for _, counts in states}], dtype=np.int64))


def suffices(tables: Sequence[Amounts], wanted: Rows, *, limit: int) -> bool | None:
    """Whether the sets together have room for `wanted`, when each takes one of its mixes.

    tables  of each set: (v, K) mixes, as `fitting_mixes` returns them
    wanted  (K,)  counts of each kind
    limit         mixes of several sets to look at
    ->            None if the limit was reached
    """
    reached = np.zeros((1, len(wanted)), dtype=np.int64)
    for table in tables:
        if (reached == wanted).all(axis=1).any():
            return True
        if len(reached) * len(table) > limit:
            return None
        sums = (reached[:, None] + table[None]).reshape(-1, len(wanted))
        reached = undominated(np.minimum(sums, wanted))
    return bool((reached == wanted).all(axis=1).any())


def undominated(counts: Amounts) -> Amounts:
    """(v, K) -> (u, K): the distinct rows that no other row reaches in every column. Takes v² K steps."""
    distinct = np.unique(counts, axis=0)
    if len(distinct) == 1:
        return distinct
    below: Mask = np.all(distinct[:, None] <= distinct[None], axis=2)
    np.fill_diagonal(below, val=False)
    return distinct[~below.any(axis=1)]
