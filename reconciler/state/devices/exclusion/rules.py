"""Which devices of one pool can be held together.

Compatibility groups follow GRP-1 to GRP-7, expressions GRP-10 and GRP-11. In mode `kep-5963` all held
devices of a scope need one name in common; "no groups" is also a name. Everything else is a mark. A device
can ask for a mark; the other held devices of the scope must then meet it. An expression is a mark, met by
the devices for which it is true. In mode `pairwise` a list of groups is a mark, met by the devices that share
one of them or have no groups.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.exclusion import pack_bits
from kernels.types import Bits, Codes
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, GroupMode, Semantics
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.exclusion.expressions import Problem, evaluate
from reconciler.state.devices.exclusion.groups import group_marks, group_names, groups_of
from reconciler.state.devices.exclusion.marks import Mark, numbered_by_scope
from reconciler.state.devices.exclusion.pairs import (
    Conflict,
    conflicts_apart,
    judged_pairs,
    scopes_apart,
)
from reconciler.state.devices.pools.counters import PoolCounters
from reconciler.state.devices.pools.stepwise import Steps


class PoolExclusion(Struct, frozen=True):
    """Columns of the n devices of a pool; K is at least 1."""

    scopes: Codes
    """(n, K) position among the pool's counter sets, or after them; -1 for none"""
    apart: int
    """Number of scopes after the counter sets: devices that exclude one another without a common set"""
    names: Bits
    """(n, K, W) names; all held devices of the scope need one in common"""
    marks: int
    asks: Bits
    """(n, K, V) marks that the others must meet"""
    meets: Bits
    """(n, K, V) marks that the device meets"""
    mode: GroupMode
    """How compatibility groups are compared"""
    problems: tuple[Problem, ...]

    def equals(self, other: "PoolExclusion") -> bool:
        """Whether the same devices can be held together."""
        return (
            (self.apart, self.marks, self.mode, self.problems)
            == (other.apart, other.marks, other.mode, other.problems)
            and np.array_equal(self.scopes, other.scopes)
            and np.array_equal(self.names, other.names)
            and np.array_equal(self.asks, other.asks)
            and np.array_equal(self.meets, other.meets)
        )


def compile_exclusion(
    pool: PoolID,
    blocks: Sequence[Block],
    counters: PoolCounters,
    vocabulary: Vocabulary,
    rules: Semantics,
    mode: GroupMode,
) -> Steps[PoolExclusion | None]:
    """The columns of a pool whose slices are `blocks`; None if no device declares anything.

    One step for each distinct expression: compiling and running it may take milliseconds.
    """
    if not any(block.exclusive for block in blocks):
        return None
    devices = [device for block in blocks for device in block.slice.spec.devices]
    pairs = judged_pairs(blocks, counters, everywhere=rules.exclusion_scope(pool.driver) == "pool")
    stated, problems = yield from evaluate(pool, blocks, devices, pairs, vocabulary)
    conflicts = conflicts_apart(stated, pairs)
    apart = scopes_apart(conflicts, pairs.place)
    scopes = _with_apart(pairs.sets, apart, len(counters.sets))
    size = max(len(counters.sets), int(scopes.max(initial=-1)) + 1)
    on = rules.has(COMPATIBILITY_GROUPS)
    groups = groups_of(devices, scopes, counters)
    in_sets = (scopes >= 0) & (scopes < len(counters.sets))
    marks = [_apart(one, apart, scopes) for one in conflicts]
    if not pairs.everywhere:
        marks += [
            Mark(one.by[:, None] & in_sets, np.broadcast_to(one.true[:, None], scopes.shape))
            for one in stated
        ]
    if mode == "pairwise" and on:
        marks += group_marks(groups, scopes)
    asks, meets = numbered_by_scope(scopes, size, marks)
    return PoolExclusion(
        scopes=scopes,
        apart=size - len(counters.sets),
        names=group_names(groups, scopes, mode, on=on),
        marks=asks.shape[2] if marks else 0,
        asks=pack_bits(asks),
        meets=pack_bits(meets),
        mode=mode,
        problems=problems,
    )


def _with_apart(sets: Codes, apart: Codes, first: int) -> Codes:
    """(n, K) the counter sets, and in the last column the other scope of a device, if any has one."""
    if sets.shape[1] and (apart < 0).all():
        return sets
    last = np.where(apart >= 0, apart + first, -1).astype(np.int32)
    return np.concatenate([sets, last[:, None]], axis=1)


def _apart(conflict: Conflict, apart: Codes, scopes: Codes) -> Mark:
    """The mark of a conflict; it counts in the last column only."""
    asks, meets = np.zeros(scopes.shape, dtype=np.bool_), np.ones(scopes.shape, dtype=np.bool_)
    asks[:, -1] = conflict.by & (apart >= 0)
    meets[:, -1] = ~conflict.against
    return Mark(asks, meets)
