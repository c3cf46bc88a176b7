"""Which devices of a fleet can be held together (frozen), and what the held ones exclude, scope by scope."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.exclusion import ALL, compatible, count_marks, shared_by_all, shares_a_name, unpack_bits
from kernels.groups import Inverse, distinct, invert
from kernels.types import Bits, Codes, Mask, Rows
from reconciler.api.objects.semantics import GroupMode
from reconciler.state.caches import Forkable
from reconciler.state.devices.exclusion_rules import Problem
from reconciler.state.devices.pool import Pool


class Exclusion(Struct, frozen=True, eq=False):
    """Columns of D devices in S scopes.

    A scope is a counter set, or devices of a pool that exclude one another although they share no
    counter set. Counter sets keep their numbers; the other scopes are numbered after them.
    """

    size: int
    """S"""
    sets: int
    """Number of scopes that are counter sets; they are first"""
    scopes: Codes
    """(D, K) -1 for none"""
    names: Bits
    """(D, K, W) names; all held devices of the scope need one in common"""
    marks: int
    asks: Bits
    """(D, K, V) marks that the other held devices of the scope must meet"""
    meets: Bits
    """(D, K, V) marks that the device meets"""
    bound: Mask
    """(D,) in a scope where a device declares something: a held device there may exclude it"""
    by_scope: Inverse
    modes: Mapping[str, GroupMode]
    """driver -> how its groups are compared; only drivers whose devices declare something"""
    problems: tuple[Problem, ...]


def gather(pools: Sequence[Pool], start: Rows, first_set: Rows, sets: Codes) -> Exclusion | None:
    """The columns of a fleet whose devices draw from `sets` (D, K); None if no device declares anything."""
    stating = [(at, pool.exclusion) for at, pool in enumerate(pools) if pool.exclusion is not None]
    if not stating:
        return None
    parts = [part for _, part in stating]
    deep = max(part.scopes.shape[1] for part in parts)
    shape = (len(sets), max(sets.shape[1], deep))
    scopes = np.full(shape, -1, dtype=np.int32)
    names = _wide(shape, [part.names for part in parts], ALL)
    asks = _wide(shape, [part.asks for part in parts], np.uint64(0))
    meets = _wide(shape, [part.meets for part in parts], ALL)
    counter_sets = size = int(first_set[-1])
    for at, part in stating:
        rows = slice(int(start[at]), int(start[at + 1]))
        own = len(pools[at].counters.sets)
        local = part.scopes
        place = np.where(local < own, local + first_set[at], local - own + size)
        depth = local.shape[1]
        scopes[rows, :depth] = np.where(local >= 0, place, -1)
        names[rows, :depth] = _padded(part.names, names.shape[2], ALL)
        asks[rows, :depth, : part.asks.shape[2]] = part.asks
        meets[rows, :depth, : part.meets.shape[2]] = part.meets
        size += part.apart
    for array in (scopes, names, asks, meets):
        array.setflags(write=False)
    return Exclusion(
        size=size,
        sets=counter_sets,
        scopes=scopes,
        names=names,
        marks=max(part.marks for part in parts),
        asks=asks,
        meets=meets,
        bound=_bound(size, scopes, names, asks),
        by_scope=invert(scopes, size),
        modes={pools[at].id.driver: part.mode for at, part in stating},
        problems=tuple(problem for part in parts for problem in part.problems),
    )


def _wide(shape: tuple[int, int], parts: Sequence[Bits], fill: np.uint64) -> Bits:
    return np.full((*shape, max(part.shape[2] for part in parts)), fill, dtype=np.uint64)


def _padded(bits: Bits, words: int, everything: np.uint64) -> Bits:
    """(n, K, words) the added words hold no names, except where all names are set."""
    whole = (bits == everything).all(axis=2, keepdims=True)
    more = np.where(whole, everything, np.uint64(0))
    return np.concatenate([bits, np.repeat(more, words - bits.shape[2], axis=2)], axis=2)


def _bound(size: int, scopes: Codes, names: Bits, asks: Bits) -> Mask:
    """(D,) `Exclusion.bound`."""
    strict = np.zeros(size + 1, dtype=np.bool_)
    says = (asks != 0).any(axis=2)
    strict[scopes[says]] = True
    used = scopes >= 0
    flat, declared = scopes[used], names[used]
    order = np.argsort(flat, kind="stable")
    flat, declared = flat[order], declared[order]
    differ = (declared[1:] != declared[:-1]).any(axis=1) & (flat[1:] == flat[:-1])
    strict[flat[1:][differ]] = True
    strict[flat[(declared == 0).all(axis=1)]] = True
    strict[-1] = False  # the place of scope -1
    bound: Mask = np.any(strict[scopes], axis=1)
    return bound


NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class ScopeOccupancy(Forkable):
    """Mutable, like the columns it belongs to. `names` and `open` are replaced, never modified in place."""

    def __init__(self, exclusion: Exclusion, taken: Mask) -> None:
        rows = np.flatnonzero(taken)
        self.exclusion = exclusion
        scopes = exclusion.scopes[rows]
        self.names: Bits = shared_by_all(exclusion.size, scopes, exclusion.names[rows])
        """(S, W) names that all held devices of a scope share"""
        marked = distinct(exclusion.scopes[(exclusion.asks != 0).any(axis=2)])
        marked = marked[marked >= 0]
        # Marks are counted only in scopes where a device asks for one: usually none.
        self._marked = np.full(exclusion.size + 1, -1, dtype=np.int32)
        self._marked[marked] = np.arange(len(marked), dtype=np.int32)
        places, marks = self._marked[scopes], exclusion.marks if len(marked) else 0
        self._asked = count_marks(len(marked), marks, places, exclusion.asks[rows])
        self._missed = count_marks(len(marked), marks, places, ~exclusion.meets[rows])
        self.open: Mask = self._evaluate(np.arange(len(taken)), taken)
        """(D,) no held device excludes the device"""

    def changed(self, rows: Iterable[int], taken: Mask) -> Rows:
        """Follow devices that were taken or released.

        rows  (n,)
        taken (D,)  current
        ->    (m,)  the re-evaluated rows that share no counter set with `rows`
        """
        exclusion = self.exclusion
        affected: set[int] = set()
        for row in rows:
            if exclusion.bound[row]:
                affected.update(self._count(row, taken))
        if not affected:
            return NO_ROWS
        again = exclusion.by_scope.of_any(np.array(sorted(affected), dtype=np.intp))
        evaluated = self._evaluate(again, taken)
        if (evaluated != self.open[again]).any():
            self.open = self.open.copy()
            self.open[again] = evaluated
        apart = [scope for scope in affected if scope >= exclusion.sets]
        return exclusion.by_scope.of_any(np.array(sorted(apart), dtype=np.intp)) if apart else NO_ROWS

    def _count(self, row: int, taken: Mask) -> Iterator[int]:
        """Count one device; yield the scopes in which this may affect a device."""
        exclusion = self.exclusion
        sign = 1 if taken[row] else -1
        for k, scope in enumerate(exclusion.scopes[row].tolist()):
            if scope < 0:
                continue
            common = self.names[scope] & exclusion.names[row, k] if sign > 0 else self._common(scope, taken)
            if (common != self.names[scope]).any():
                self.names = self.names.copy()
                self.names[scope] = common
                yield scope
            place = int(self._marked[scope])
            if place >= 0:
                self._asked[place] += sign * unpack_bits(exclusion.asks[row, k], exclusion.marks)
                self._missed[place] += sign * unpack_bits(~exclusion.meets[row, k], exclusion.marks)
                yield scope

    def _common(self, scope: int, taken: Mask) -> Bits:
        """(W,) names that all held devices of a scope share, computed anew."""
        exclusion = self.exclusion
        members = exclusion.by_scope.of(scope)
        members = members[taken[members]]
        scopes = np.where(exclusion.scopes[members] == scope, 0, -1)
        return shared_by_all(1, scopes.astype(np.int32), exclusion.names[members])[0]

    def _evaluate(self, rows: Rows, taken: Mask) -> Mask:
        exclusion = self.exclusion
        scopes = exclusion.scopes[rows]
        ok = shares_a_name(self.names, scopes, exclusion.names[rows])
        if len(self._asked):
            asks, meets = exclusion.asks[rows], exclusion.meets[rows]
            ok &= compatible(self._asked, self._missed, self._marked[scopes], asks, meets, taken[rows])
        return ok
